"""Calls a kernel once for each program of its launch grid: one after the other, or alternately.

An instance runs in the caller's thread from its beginning to its end, unless an earlier one asks
for values that depend on it (they are on two cores, which have met in sendrecv or core_barrier).
Then it runs in a thread of its own as far as its next meeting, where it stops until it is
asked for more or it is next. Only one of the threads runs at any time.
"""

import contextvars
import ctypes
import threading
from typing import Any

from ..values.errors import fail


class _Abandoned(BaseException):
    """Ends a recording that will not be finished."""


class Instance:
    """One program instance, and how far it is recorded."""

    def __init__(self, number, ids, core):
        self.number, self.ids, self.core = number, ids, core
        self.shared_count = 0    # allocations of shared HBM so far
        self.region = ""         # nkisim.region, where it was left
        self.thread: threading.Thread | None = None  # of an instance recorded alternately
        self.go = threading.Semaphore(0)
        self.back = threading.Semaphore(0)
        self.stops = False       # at its next meeting
        self.met = False         # since it went on
        self.asks = False        # waits for another's recording
        self.finished = False
        self.ending = threading.Lock()
        self.ended = False       # its thread does nothing more
        self.problem: BaseException | None = None
        self.value: Any = None


class Instances:
    """The instances of a launch, of which one is being recorded at any time."""

    def __init__(self, recorder, launch, call):
        self.recorder = recorder
        self.call = call         # runs the kernel function and gives its value
        self.all = [Instance(n, ids, core) for n, (ids, core) in enumerate(launch.instances)]
        self.cores = 1 + max(i.core for i in self.all)
        self.current = self.all[0]
        self.abandoned = False

    def record(self):
        """Records all that is left; the value of the first instance."""
        try:
            for instance in self.all:
                if instance.thread is None:
                    self._enter(instance)
                    instance.value = self.call()
                    instance.finished = True
                else:
                    self._resume(instance, stops=False)
        finally:
            self._abandon()
        return self.all[0].value

    def complete(self):
        """True if the other cores' programs are recorded to their ends."""
        return not self._others()

    def further(self):
        """Records the next program of another core as far as its next meeting."""
        me, other = self.current, self._others()[0]
        if other.asks:
            fail("values_while_recording",
                 "values are asked for that depend on another core, which itself waits for values "
                 "of this one")
        self._leave()
        me.asks = True
        try:
            self._resume(other, stops=True)
        finally:
            me.asks = False
            self._enter(me)

    def pause(self, meeting=False):
        """After a meeting or a loop: hands back to the instance that asked for this one."""
        me = self.current
        me.met |= meeting
        if not me.stops or not me.met or self.recorder.loops.open:
            return
        self._leave()
        me.back.release()
        me.go.acquire()
        if self.abandoned:
            raise _Abandoned

    def _others(self):
        return [i for i in self.all if i.core != self.current.core and not i.finished]

    def _enter(self, instance):
        self.current = instance
        self.recorder.begin(instance)

    def _leave(self):
        self.current.shared_count, self.current.region = self.recorder.shared_count, self.recorder.region

    def _resume(self, instance, stops):
        """Lets the instance go on; raises what ended it."""
        if instance.problem is None and not instance.finished:
            instance.stops, instance.met = stops, False
            self._enter(instance)
            if instance.thread is None:
                context = contextvars.copy_context()
                instance.thread = threading.Thread(target=context.run, args=(self._run, instance),
                                                   daemon=True, name=f"core {instance.core}")
                instance.thread.start()
            else:
                instance.go.release()
            instance.back.acquire()
        if instance.problem is not None:
            raise instance.problem

    def _run(self, instance):
        try:
            instance.value = self.call()
            instance.finished = True
        except BaseException as problem:  # for the thread that waits
            instance.problem = problem
        with instance.ending:
            instance.ended = True
        instance.back.release()

    def _abandon(self):
        """Ends the threads of instances that will not be finished."""
        self.abandoned = True
        for instance in self.all:
            thread = instance.thread
            if thread is None or not thread.is_alive():
                continue
            if not instance.finished and instance.problem is None:
                instance.go.release()
                thread.join(0.1)
            with instance.ending:  # a thread that has ended may have left its number to another
                if not instance.ended:  # interrupted while it was recording
                    assert thread.ident is not None  # it has started
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident),
                                                               ctypes.py_object(_Abandoned))
            thread.join(1)
