"""Threads in which the calls wait that may wait long.

A handler of Python (Ctrl-C) runs in the main thread between two byte codes, so never while that thread is in a C function,
and dyad_consume() goes on waiting after a signal. Slices of the time would need a request for each slice of each waiter, and
a waiter that asks anew has lost its place. So the call runs in a helper, undivided, and the main thread waits for the
helper's result on a lock, which a handler does interrupt.

A wait that was interrupted, or whose asyncio task was cancelled, goes on in its helper until it has its answer, or the
process ends: libdyad cannot end it. Nothing takes its result. The helpers are daemons, so they do not hold up the end of the
process, and there are as many as there are waits at one time: a limit could make a wait stand in line behind one that only
ends after it.
"""

import os
import queue
import threading
from typing import Any, Callable, List, Optional

_Task = Callable[[], None]
_idle: "List[_Helper]" = []


class _Helper:
    def __init__(self) -> None:
        self._tasks: "queue.SimpleQueue[_Task]" = queue.SimpleQueue()
        threading.Thread(target=self._run, name="dyad-wait", daemon=True).start()

    def give(self, task: _Task) -> None:
        self._tasks.put(task)

    def _run(self) -> None:
        while True:
            task = self._tasks.get()
            task()
            del task
            _idle.append(self)


def start(call: Callable[[], Any], done: Callable[[Any, Optional[BaseException]], None]) -> None:
    """Run call() in a helper, and done(result, exception) there after it."""

    def task() -> None:
        try:
            result = call()
        except BaseException as error:  # pylint: disable=broad-except
            done(None, error)
        else:
            done(result, None)

    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    helper.give(task)


def interruptible(call: Callable[[], Any]) -> Any:
    """call(), which a handler of Python can end by an exception where one can run: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
    start(call, lambda result, error: results.put((result, error)))
    result, error = results.get()
    if error is not None:
        try:
            raise error
        finally:
            del error
    return result


# A child of fork has none of the threads.
os.register_at_fork(after_in_child=_idle.clear)
