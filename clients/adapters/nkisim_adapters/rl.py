"""Provides an environment for reinforcement learning: an action is a kernel, the reward its
correctness and speed.

    from nkisim_adapters.rl import Environment
    with Environment(target="trn2") as environment:
        observation, info = environment.reset(task=3)
        observation, reward, terminated, truncated, info = environment.step(action)

reset and step are those of Gymnasium's Env, which this needs nothing of. An action is the text of a kernel, or a
dict of the task's parameters. The reward is a sum of parts that stand in info["parts"]:

    legal    0.1  the kernel is a program that breaks no rule
    correct  0.4  its values are right on every seed, one of them chosen at random once the program is known
    speed         the binary logarithm of how many times faster than the task's baseline it is, between -1 and 4,
                  for right values alone
    honest   -1   the code did what no kernel needs, such as opening files; then no other part counts

A simulation is deterministic: the same actions get the same rewards.
"""

import math
import os
import random
import tempfile

from nkisim_evaluate import Evaluator, Settings

from .tasks import tasks

LEGAL, CORRECT, DISHONEST = 0.1, 0.4, -1.0
SLOWEST, FASTEST = -1.0, 4.0


def parts_of(record, baseline_us):
    """The parts of the reward that a record of nkisim.evaluate is worth: {"legal", "correct", "speed", "honest"}."""
    parts = {"legal": 0.0, "correct": 0.0, "speed": 0.0, "honest": 0.0}
    if record["flags"]:
        return {**parts, "honest": DISHONEST}
    if record["status"] in ("ok", "wrong"):
        parts["legal"] = LEGAL
    if record["status"] == "ok":
        faster = math.log2(baseline_us / record["latency_us"])
        parts.update(correct=CORRECT, speed=min(max(faster, SLOWEST), FASTEST))
    return parts


class Environment:
    """Kernels of one task after another. steps: actions of an episode, after which it is truncated. settings: as
    nkisim.evaluate's, the target at least. Its processes stay warm from task to task."""

    def __init__(self, target="trn2", steps=8, given=None, **settings):
        self.tasks = tasks() if given is None else list(given)
        self.steps, self._settings = steps, {"target": target, **settings}
        self._folder = tempfile.TemporaryDirectory(prefix="nkisim-rl-")
        self._evaluator = self._task = None
        self._baselines, self._left, self._best = {}, 0, None
        self._random = random.Random(0)

    def _switch_to(self, task):
        path = os.path.join(self._folder.name, f"{task.name}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(task.reference)
        if self._evaluator is None:
            self._evaluator = Evaluator(Settings(path, **self._settings), 1)
        else:
            self._evaluator.switch_to(path)
        if task.name not in self._baselines:
            record = self._judge(task.source(task.baseline))
            if record["status"] != "ok":
                raise ValueError(f"the baseline of {task.name} is {record['status']}: {record.get('error')}")
            self._baselines[task.name] = record["latency_us"]

    def _judge(self, source):
        return self._evaluator.evaluate({"id": self._task.name, "source": source})

    def reset(self, *, seed=None, options=None, task=None):
        """Begins an episode: (observation, info). task: a number or name of self.tasks, one at random (of `seed`)
        by default; options={"task": ...} says the same."""
        if seed is not None:
            self._random.seed(seed)
        chosen = task if task is not None else (options or {}).get("task")
        if chosen is None:
            chosen = self._random.randrange(len(self.tasks))
        self._task = self.tasks[chosen] if isinstance(chosen, int) else next(
            t for t in self.tasks if t.name == chosen)
        self._switch_to(self._task)
        self._left, self._best = self.steps, None
        return self._observation(None), {"baseline_us": self._baselines[self._task.name]}

    def _observation(self, record):
        """The policy's view: the task and the result of the last kernel."""
        return {"task": self._task.name, "reference": self._task.reference, "parameters": self._task.parameters,
                "baseline": self._task.source(self._task.baseline),
                "baseline_us": self._baselines[self._task.name], "best_us": self._best,
                "status": record and record["status"], "latency_us": record and record["latency_us"],
                "message": (record or {}).get("error", {}).get("message", ""),
                "verdict": (record or {}).get("verdict", [])}

    def step(self, action):
        """Judges a kernel: (observation, reward, terminated, truncated, info), info having `parts` and `record`."""
        if self._left <= 0:
            raise RuntimeError("the episode is over; reset begins another")
        self._left -= 1
        record = self._judge(action if isinstance(action, str) else self._task.source(action))
        parts = parts_of(record, self._baselines[self._task.name])
        if parts["correct"] and (self._best is None or record["latency_us"] < self._best):
            self._best = record["latency_us"]
        return (self._observation(record), sum(parts.values()), False, self._left == 0,
                {"parts": parts, "record": record})

    def close(self):
        if self._evaluator is not None:
            self._evaluator.close()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
