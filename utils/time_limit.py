"""A limit on how long a piece of Python may run, in the process it runs in."""

import contextlib
import ctypes
import signal
import threading
import time


class TooSlow(BaseException):
    """Raised in code that ran past its limit. `except Exception` does not catch it."""


@contextlib.contextmanager
def time_limit(seconds):
    """Raise TooSlow in the body after `seconds`. Limits nest; the shorter one wins.

    In the main thread of a Unix process a timer signal interrupts sleeps too.
    Elsewhere the exception is set from a second thread and arrives between
    two bytecodes.
    """
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        yield from _by_signal(seconds)
    else:
        yield from _by_thread(seconds)


def _by_signal(seconds):
    def ring(signum, frame):
        raise TooSlow

    started = time.monotonic()
    outer, _ = signal.getitimer(signal.ITIMER_REAL)
    handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, outer or seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if outer:
            left = outer - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001))


def _by_thread(seconds):
    thread = ctypes.c_ulong(threading.get_ident())

    def ring():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TooSlow))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
