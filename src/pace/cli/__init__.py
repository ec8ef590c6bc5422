"""The `pace` command: parse, call, print. A command's module is loaded when it is asked for.

Completing the values of its options loads it too: what needs torch is imported inside the command.
"""

import atexit
import contextlib
import errno
import gc
import io
import os
import signal
import sys
import threading
import traceback
from typing import Annotated, Any, NoReturn

import typer

from pace import __version__
from pace.cli.commands import Commands
from pace.cli.given import Allow, option
from pace.errors import PaceError, ProblemsError
from pace.io import allowed, coloured, say

WRONG, BUG, INTERRUPTED, LEFT = 2, 70, 130, 141  # as a shell counts signals 2 and 13
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # of a disk, a quota, or a limit of the shell
USAGE_ERROR: Any = typer.BadParameter.__mro__[2]  # click's, or that of Typer's own click

STOPPED = "interrupted; every file is whole or absent, and the command can be run again"
PATIENCE = 1.0  # seconds that Python has to answer Ctrl-C

app = typer.Typer(
    name="pace",
    cls=Commands,
    help="One-shot personalized federated graph learning: one upload, one return, Local kept.",
    epilog="""
    pace run
    pace run --dataset cora --methods all --out results/
    pace doctor

    Exit codes: 0 done; 1 done, and the answer is no or not yet; 2 a mistake in what was given, said
    in one sentence on stderr; 70 a mistake in pace itself; 130 interrupted.
    """,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, option("Print the version.", "", "--version", is_eager=True)] = False,
    allow: Allow = None,
) -> None:
    if version:
        say(__version__)
        raise typer.Exit


def main() -> None:
    """Run a command. A mistake is one sentence on stderr, an interruption too, and an exit code."""
    # Imports make 270,000 objects that stay; to look for cycles among them is a tenth of a start.
    gc.set_threshold(500_000)
    # SciPy's threads wait for each other in each step of a search: four times slower on a busy machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")  # a terminal without α shows ? and goes on
    try:
        code = app(prog_name="pace", standalone_mode=False, color=coloured(sys.stdout)) or 0
        sys.stdout.flush()
    except ProblemsError as error:
        code = said(error.head, WRONG)
        for line in error.lines:
            say(f"  {line}", err=True)
    except PaceError as error:
        code = said(str(error), WRONG)
    except USAGE_ERROR as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        code = said(" ".join(error.format_message().split()) + where, WRONG)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        code = LEFT
    except SystemExit as end:  # Typer's and rich's answer to a closed pipe, among others
        code = LEFT if isinstance(end.__context__, BrokenPipeError) else end.code
    except OSError as error:  # a full disk, a folder that may not be written to
        full = error.errno in FULL
        where = f"cannot {'write' if full else 'use'} {error.filename}"
        remedy = "; make room, then run this again" if full else ""
        begin = where if error.filename else "the system says"
        code = said(f"{begin}: {error.strerror or error}{remedy}", WRONG)
    except Exception as error:
        code = blamed(error)
    if code == INTERRUPTED:
        said(STOPPED, 0)
    if code == LEFT:  # what is still to be written goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def blamed(error: Exception) -> int:
    """Say whose mistake it is: a library that is not installed, code that was allowed, or ours."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    running = {frame.f_globals.get("__name__") for frame in frames}
    own = running & {name.partition(":")[0] for name in allowed()}
    library = (getattr(error, "name", None) or "pace").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and library != "pace" and not own:
        remedy = "pip install pace-fgl brings it, and `pace doctor` says what else is missing"
        return said(f"PACE needs {library}, which this Python does not have: {remedy}", WRONG)
    for line in traceback.format_exc().splitlines():
        say(line, err=True)
    if own:
        return said(f"this is a mistake in {own.pop()}, not in pace: see the lines above", WRONG)
    return said("this is a mistake in pace: please report the lines above", BUG)


def program() -> NoReturn:
    """The program `pace`: what `main` does, and then the end at once.

    Taking the interpreter down with torch loaded takes half a second, and the system does it anyway.
    """
    answer_interrupts()
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else WRONG if end.code else 0
    others = set(threading.enumerate()) - {threading.main_thread()}
    if any(not thread.daemon for thread in others):
        sys.exit(code)  # another thread is still at work
    atexit._run_exitfuncs()  # what libraries want done before the end
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed already, or not read
            stream.flush()
    os._exit(code)


def answer_interrupts() -> None:
    """Let Ctrl-C end the program within two seconds, also inside one long product.

    Python raises KeyboardInterrupt between two of its instructions. Where none comes to an end, a
    thread that the system tells of the signal ends the program: every file is whole or absent.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    answered = threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        answered.set()
        signal.default_int_handler(number, frame)

    def watch() -> None:
        while number := os.read(reader, 1):
            ours = signal.getsignal(signal.SIGINT) is interrupt
            if number[0] == signal.SIGINT and ours and not answered.wait(PATIENCE):
                os.write(2, f"pace: {STOPPED}\n".encode())
                os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else `nohup`, or a test
        signal.signal(signal.SIGINT, interrupt)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=watch, daemon=True).start()


def said(sentence: str, code: int) -> int:
    say(f"pace: {sentence}", err=True)
    return code
