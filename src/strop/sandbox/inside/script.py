"""Mode `main`: run Python source as the main program, as `python solution.py` would, and return its exit status."""

import atexit
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
    return _finish(status)


def _status_of(stop):
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _report(error):
    trace = error.__traceback__.tb_next  # leave our own frame out
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException:
        os.write(2, f"{type(error).__name__}\n".encode())


def _finish(status):
    """What the interpreter does at its end, short of tearing its objects down: join threads, run exits, flush."""
    threading = sys.modules.get("threading")
    try:
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
    except SystemExit as stop:
        status = _status_of(stop)
    except BaseException as error:
        _report(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            status = status or 120
    return status
