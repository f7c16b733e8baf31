"""Results of units of work, kept by the content of what was run."""

import os
import tempfile
from pathlib import Path


class Store:
    """Files under `folder`, named by a unit's key; each is there whole or not at all."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def get(self, key):
        """The bytes kept under a key, or None."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, key, data):
        write_whole(self._path(key), data)

    def _path(self, key):
        return self.folder / key[:2] / key


def write_whole(path, data):
    """Write a file, and the folders above it, so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(fresh, 0o644)  # mkstemp's files are closed to a second teacher
    os.replace(fresh, path)
