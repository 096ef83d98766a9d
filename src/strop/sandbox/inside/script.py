"""Mode `main`: run Python source as the main program, as `python solution.py` would, and return its exit status."""

import atexit
import gc
import os
import sys
import types


def run(job, code, fds):
    main = types.ModuleType("__main__")
    main.__file__ = code.co_filename
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.argv[:] = [job["filename"], *job["args"]]
    sys.path.insert(0, os.getcwd())
    status = 0
    try:
        exec(code, main.__dict__)
    except SystemExit as stop:
        status = _status_of(stop)
    except BaseException as error:
        status = 1
        _report(error)
    return _finish(status, main)


def _status_of(stop):
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF if -(1 << 63) <= stop.code < 1 << 63 else 255
    print(stop.code, file=sys.stderr)
    return 1


def _report(error):
    trace = error.__traceback__.tb_next  # leave our own frame out
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException:
        os.write(2, f"{type(error).__name__}\n".encode())


def _finish(status, main):
    """What the interpreter does at its end: join threads, run exits, let go of the program's objects, flush."""
    threading = sys.modules.get("threading")
    try:
        if threading is not None and _has_threads_to_end(threading):
            threading._shutdown()
        atexit._run_exitfuncs()
    except SystemExit as stop:
        status = _status_of(stop)
    except BaseException as error:
        _report(error)
    if len(sys._current_frames()) == 1:  # daemon threads would go on without their globals
        _let_go(main.__dict__)
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        stream = vars(sys).get(name)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:
            status = status or 120
    return status


def _has_threads_to_end(threading):
    """Mostly there are none, and then the shutdown would be a fifth of what follows a short program."""
    return len(sys._current_frames()) > 1 or len(getattr(threading, "_threading_atexits", "?")) > 0


def _let_go(names):
    """In the interpreter's order, so that files are written out and every `__del__` runs."""
    try:
        for private in (True, False):
            for name in list(names):
                if isinstance(name, str) and name.startswith("_") is private and name != "__builtins__":
                    names[name] = None
        gc.collect()
    except BaseException as error:
        _report(error)
