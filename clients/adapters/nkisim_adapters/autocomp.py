"""Implements autocomp's evaluation backend (ucb-bar/autocomp, `EvalBackend.evaluate_code`) by
simulation.

    backend = NkisimBackend({("attention", 0): "attention_ref.py"}, target="trn2")
    backend.evaluate_code(prob, [text, text], "trn")   # a dict per text, in their order

A problem is found by (prob_type, prob_id), by prob_id or by its text. Each dict has correct, latency
(ms, None unless correct), stdout ("Test passed" and "Latency: x ms", as a harness prints them) and
stderr (what was wrong).
"""

import contextlib

from nkisim_evaluate import Evaluator, Settings


class NkisimBackend:
    """references: reference file by problem. jobs: candidates at a time. settings: as
    nkisim.evaluate. Workers stay warm between calls; close() ends them."""

    def __init__(self, references, jobs=None, **settings):
        self._references, self._jobs = dict(references), jobs
        self._settings = {"timeout": 600, **settings}
        self._evaluators = {}

    def _evaluator(self, prob):
        key = (getattr(prob, "prob_type", None), getattr(prob, "prob_id", None))
        for name in (key, key[1], str(prob)):
            if name in self._references:
                path = self._references[name]
                if path not in self._evaluators:
                    self._evaluators[path] = Evaluator(Settings(path, **self._settings), self._jobs)
                return self._evaluators[path]
        raise KeyError(f"no reference for problem {key}; {list(self._references)} have one")

    def evaluate_code(self, prob, code_strs, simulator=None):
        """A dict for each text of a kernel; `simulator` is not looked at."""
        candidates = [{"id": n, "source": text} for n, text in enumerate(code_strs)]
        found = {r["id"]: r for r in self._evaluator(prob).records(candidates)}
        return [self._summary(found[n]) for n in range(len(candidates))]

    @staticmethod
    def _summary(record):
        good = record["status"] == "ok"
        latency = record["latency_us"] / 1e3 if good else None
        return {"correct": good, "latency": latency,
                "stdout": f"Test passed\nLatency: {latency:.6f} ms\n" if good else "",
                "stderr": "" if good else
                f"{record['status']}: {record.get('error', {}).get('message', '')}\n",
                "record": record}

    def close(self):
        for evaluator in self._evaluators.values():
            evaluator.close()
        self._evaluators = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.close()
