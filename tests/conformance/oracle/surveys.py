"""Runs the cases of an oracle that draws whole calls, and prints those that differ."""

import argparse
import itertools

SHOWN = 30


def survey_ranks(draw, seed, count):
    """A line for each case of several ranks that differs or does not run; draw(seed) makes one."""
    for number in range(count):
        case = draw((seed, number))
        try:
            wrong = case.differences()
        except Exception as problem:
            yield f"case {number}: {case}: {type(problem).__name__}: {problem}"
            continue
        if wrong:
            yield f"case {number}: {case}: ranks {wrong} differ"


def main(text, survey, cases):
    """The command of survey(seed, count): `text` helps, `cases` are run where none are asked for. 1 if one differs."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = list(survey(options.seed, options.cases))
    print("\n".join(itertools.islice(found, SHOWN)))
    print(f"{options.cases} cases, {len(found)} differ")
    return bool(found)
