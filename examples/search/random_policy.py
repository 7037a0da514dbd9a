"""Chooses kernel parameters at random, on the fifty learning tasks of nkisim_adapters.rl.

    python examples/search/random_policy.py [--tasks N] [--seed N]
"""

import argparse
import random

from nkisim_adapters.rl import Environment


def play(tasks, seed):
    """[(task, reward, its parts)] of one kernel for each task."""
    policy, found = random.Random(seed), []
    with Environment(target="trn2") as environment:
        for task in range(tasks):
            observation, _ = environment.reset(task=task)
            action = {name: policy.choice(values) for name, values in observation["parameters"].items()}
            observation, reward, _, _, info = environment.step(action)
            found.append((observation["task"], reward, info["parts"]))
    return found


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found = play(args.tasks, args.seed)
    for task, reward, parts in found:
        print(f"{task:22} {reward:7.4f}  " + ", ".join(f"{name} {value:.4f}" for name, value in parts.items()))
    print(f"{'mean':22} {sum(reward for _, reward, _ in found) / len(found):7.4f}")


if __name__ == "__main__":
    main()
