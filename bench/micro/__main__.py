"""`python -m bench.micro`: one line of JSON; what is measured meanwhile, and the worst cases, on standard error."""

import json
import sys

from bench import arguments, micro
from bench.ending import run
from bench.micro import cache, ended_pod, filtering, loading, plan, preempt, queue, relabeling, sizing, steps

PLANS = ((64, 5000, 15), (1000, 15000, 7))
"""Members, nodes, and tries of each case: the shorter a case, the more of it."""

SIZINGS = ((100, 1000), (300, 1000))
"""Jobs, nodes."""


def main() -> None:
    arguments.none("bench.micro", micro.__doc__)
    found: dict[str, float] = {}
    for members, nodes, tries in PLANS:
        name = f"plan_{members}_{nodes}_ms"
        found[name], case = plan.worst(members, nodes, tries=tries)
        _say(f"{name}: {found[name]:.2f}, worst of all: {case}")
    found["plan_64_5000_neighbors_ms"] = plan.neighbors(64, 5000)
    _say(f"plan_64_5000_neighbors_ms: {found['plan_64_5000_neighbors_ms']:.2f}")
    found["plan_64_40000_devices_ms"] = plan.claims(64, 5000)
    _say(f"plan_64_40000_devices_ms: {found['plan_64_40000_devices_ms']:.2f}")
    found["preempt_100_over_1000_ms"], case = preempt.worst()
    _say(f"preempt_100_over_1000_ms: {found['preempt_100_over_1000_ms']:.2f}, worst of all: {case}")
    found["plan_10000_waiting_ms"], case = queue.worst()
    _say(f"plan_10000_waiting_ms: {found['plan_10000_waiting_ms']:.2f}, worst of all: {case}")
    found["plan_10000_unlike_ms"] = queue.unlike()
    _say(f"plan_10000_unlike_ms: {found['plan_10000_unlike_ms']:.2f}")
    found["stranger_bind_ms"] = queue.stranger_bind()
    _say(f"stranger_bind_ms: {found['stranger_bind_ms']:.2f}")
    found["pass_after_label_ms"], found["pass_after_note_ms"] = relabeling.worst()
    _say(f"pass_after_label_ms: {found['pass_after_label_ms']:.2f}, other: {found['pass_after_note_ms']:.2f}")
    found["pass_after_end_ms"] = ended_pod.best()
    _say(f"pass_after_end_ms: {found['pass_after_end_ms']:.2f}")
    for kind, figure in steps.longest().items():
        found[f"step_{kind}_ms"] = figure
        _say(f"step_{kind}_ms: {figure:.1f}")
    for jobs, nodes in SIZINGS:
        name = f"sizing_{jobs}_{nodes}_ms"
        found[name] = sizing.decision(jobs, nodes)
        _say(f"{name}: {found[name]:.2f}")
    found["filter_held_p99_ms"], found["filter_bare_p99_ms"] = filtering.held_p99()
    _say(f"filter_held_p99_ms: {found['filter_held_p99_ms']:.3f}, bare: {found['filter_bare_p99_ms']:.3f}")
    found["filter_busy_p99_ms"] = filtering.busy_p99()
    _say(f"filter_busy_p99_ms: {found['filter_busy_p99_ms']:.3f}")
    found["cache_mib"], found["cache_load_s"] = cache.cost()
    found["cache_load_single_s"], found["cache_load_gangs_s"] = loading.single(), loading.gangs()
    _say(f"cache_load_single_s: {found['cache_load_single_s']:.2f}, gangs: {found['cache_load_gangs_s']:.2f}")
    print(json.dumps({name: round(figure, 3) for name, figure in found.items()}), flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
