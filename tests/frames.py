"""Messages of the wire made by hand, as an attacker would."""

import json
import struct

from utils import wire


def frame(text, *blobs):
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    parts = [wire.MAGIC, struct.pack("<I", len(text)), text]
    for blob in blobs:
        parts += [struct.pack("<I", len(blob)), blob]
    return b"".join(parts)
