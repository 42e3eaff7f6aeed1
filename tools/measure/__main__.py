"""Record a real engine on this machine: `make measure`, or `make measure ARGS="--only steps"`.

A recording that is already in data/measured is skipped. Everything is built and run here; traffic stays on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import random
import shutil
import signal
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import artifacts, client, engines, environment, machine, recording, shelf

SETTLE_S = 0.3  # after the last answer, until the engine has logged its last step
OUT = environment.ROOT / "data" / "measured"


class TooBusy(RuntimeError):
    """Other processes used the machine during every attempt at a repeat."""


class Recorder:
    """Collects the rows of one recording, and decides which repeats count."""

    def __init__(self, quick: bool, progress) -> None:
        self.repeats = 1 if quick else recording.REPEATS
        self.limit = 1.0 if quick else recording.FOREIGN_SHARE_LIMIT
        self.rows: list[dict] = []
        self.runs: list[dict] = []
        self.commands: dict[str, list[str]] = {}
        self.progress = progress

    def attempt(self, setup: str, name: str, parameters: dict, repeat: int, once) -> None:
        """Call `once(run number)`, which gives duration in µs, foreign share and rows, until the machine was quiet."""
        for attempt in range(recording.ATTEMPTS):
            number = len(self.runs)
            started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            duration_us, share, rows = once(number)
            accepted = share <= self.limit
            run = {"kind": "run", "run": number, "setup": setup, "name": name, "parameters": parameters}
            run |= {"repeat": repeat, "attempt": attempt, "accepted": accepted, "foreign_share": share}
            self.runs.append(run | {"started": started, "duration_us": duration_us})
            if accepted:
                self.rows += rows
                self.progress.update()
                return
            self.progress.write(f"  {setup}, {name}: other processes used {share:.0%} of the machine; again")
        raise TooBusy(
            f"{setup}, {name}: other processes used more than {self.limit:.0%} of the machine during all "
            f"{recording.ATTEMPTS} attempts. Try again at a quiet time."
        )

    def header(self, which: shelf.Recording) -> dict:
        shares = [run["foreign_share"] for run in self.runs if run["accepted"]]
        return {
            "schema": recording.SCHEMA,
            "name": which.name,
            "title": which.title,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": machine.describe(),
            "versions": machine.versions(),
            "commands": self.commands,
            "environment": engines.ENVIRONMENT,
            "model": artifacts.FACTS,
            "seed": shelf.SEED,
            "repeats": self.repeats,
            "foreign_share_limit": self.limit,
            "attempts": recording.ATTEMPTS,
            "rule": recording.RULE,
            "foreign_share": {"median": statistics.median(shares), "max": max(shares)},
            "rejected": sum(not run["accepted"] for run in self.runs),
        }


def record_traffic(recorder: Recorder, setups: list[shelf.Setup]) -> None:
    for setup in setups:
        recorder.progress.set_postfix_str(f"starting {setup.name}")
        with setup.start() as engine:
            recorder.commands[setup.name] = engine.command
            asyncio.run(client.run(engine.url, [*shelf.WARM_UP, *setup.prime], serial=True))
            if not setup.gateway:
                _repeat_runs(recorder, setup, engine, None)
                continue
            with engines.gateway(engine.url) as gateway:
                recorder.commands[f"{setup.name}: gateway"] = gateway.command
                _repeat_runs(recorder, setup, engine, gateway)


def _repeat_runs(
    recorder: Recorder, setup: shelf.Setup, engine: engines.Process, gateway: engines.Process | None
) -> None:
    for repeat in range(recorder.repeats):
        for run in setup.runs:  # in turn, so that a slow moment falls on all alike
            recorder.progress.set_postfix_str(f"{setup.name}, {run.name}")

            def once(number: int, run=run, repeat=repeat) -> tuple[int, float, list[dict]]:
                drawn = run.draw(random.Random(f"{shelf.SEED} {repeat}"))
                salt = str(number) if run.salted else ""
                requests = [replace(request, id=f"{number}-{request.id}", salt=salt) for request in drawn]
                sent = client.run((gateway or engine).url, requests, serial=run.serial)
                foreign = machine.ForeignShare()
                origin_ns, rows = asyncio.run(sent)
                end_ns = time.monotonic_ns()
                share = foreign.value()
                time.sleep(SETTLE_S)
                stamps = asyncio.run(client.stamps(gateway.url)) if gateway else {}
                for row in rows:
                    row["run"] = number
                    if gateway:
                        row["gateway"] = {f"{k}_us": (v - origin_ns) // 1000 for k, v in stamps[row["id"]].items()}
                rows += engine.engine_rows(number, origin_ns, time.monotonic_ns())
                return (end_ns - origin_ns) // 1000, share, rows

            recorder.attempt(setup.name, run.name, run.parameters, repeat, once)


STARTS = {
    "nothing cached": "files read from disk, nothing compiled",
    "disk cold": "files read from disk, compiled code kept",
    "all warm": "files in the page cache, compiled code kept",
}


def record_starts(recorder: Recorder, quick: bool) -> None:
    """Start the engine, from a cold disk and from a warm one, and time each phase up to the first token."""
    compiled = environment.HOME / "cache" / "cold_start"
    files = [environment.HOME / "venv", environment.ROOT / artifacts.TARGET]

    for repeat in range(recorder.repeats):
        for name in ("all warm",) if quick else STARTS:
            recorder.progress.set_postfix_str(name)

            def once(number: int, name=name) -> tuple[int, float, list[dict]]:
                if name == "nothing cached":
                    shutil.rmtree(compiled, ignore_errors=True)
                if name != "all warm":
                    machine.evict([*files, compiled])
                cached = round(machine.cached_share(files), 3)
                cache = str(compiled.relative_to(environment.ROOT))
                log = f"start-{number}"
                caches = {"VLLM_CACHE_ROOT": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
                foreign = machine.ForeignShare()
                with engines.vllm(log, shelf.NO_PREFIXES, **caches) as engine:
                    recorder.commands[name] = engine.command
                    first = client.Request(id="first", prompt=client.words(random.Random(number), 64), max_tokens=2)
                    origin_ns, (row,) = asyncio.run(client.run(engine.url, [first]))
                    share = foreign.value()  # now, for the time of a child's child may be lost when it ends
                    since_spawn_us = (origin_ns - engine.spawned_ns) // 1000
                    marks = engine.marks_us() | {
                        "first request sent": since_spawn_us + row["sent_us"],
                        "first token": since_spawn_us + row["chunk_us"][0],
                    }
                start = {"kind": "start", "run": number, "state": name, "cached_share": cached, "marks_us": marks}
                return since_spawn_us + row["end_us"], share, [start]

            recorder.attempt(name, name, {"state": STARTS[name]}, repeat, once)


def runs_of(which: shelf.Recording, quick: bool) -> int:
    if which.setups is None:
        return 1 if quick else recording.REPEATS * len(STARTS)
    return (1 if quick else recording.REPEATS) * sum(len(setup.runs) for setup in which.setups(quick))


def record(which: shelf.Recording, path: Path, quick: bool) -> None:
    from tqdm import tqdm

    with tqdm(total=runs_of(which, quick), desc=which.name, unit="run", dynamic_ncols=True) as progress:
        recorder = Recorder(quick, progress)
        if which.setups is None:
            record_starts(recorder, quick)
        else:
            record_traffic(recorder, which.setups(quick))
    header, rows = recorder.header(which), [*recorder.runs, *recorder.rows]
    if faults := recording.faults(header, rows, recorder.repeats):
        recording.write(path.with_suffix(".faulty"), header, rows)
        raise RuntimeError("\n  ".join([f"{which.name} was recorded, but does not hold together:", *faults[:20]]))
    recording.write(path, header, rows)
    print(
        f"  {path.relative_to(environment.ROOT)}: {path.stat().st_size / 1e3:.0f} kB, {len(recorder.runs)} runs, "
        f"{header['rejected']} rejected",
        flush=True,
    )


def main() -> int:
    names = [which.name for which in shelf.RECORDINGS]
    parser = argparse.ArgumentParser(prog="measure", description=__doc__)
    parser.add_argument("--only", action="append", choices=names, help="this one alone; may be given more than once")
    parser.add_argument("--again", action="store_true", help="record what is already there afresh")
    parser.add_argument(
        "--quick", action="store_true", help="a little of each, into .measure/quick: does it work here?"
    )
    options = parser.parse_args()
    if obstacles := environment.obstacles():
        print("This machine cannot record the engine:", *obstacles, sep="\n  ")
        print("The book does not need it: the recordings in data/measured are complete.")
        return 1
    environment.ensure()
    if Path(sys.executable) != environment.PYTHON:
        os.chdir(environment.ROOT)
        os.execve(environment.PYTHON, [str(environment.PYTHON), "-m", "measure", *sys.argv[1:]], os.environ)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through the `with` blocks, which end the engines
    os.environ["HF_HUB_OFFLINE"] = "1"
    folder = environment.HOME / "quick" if options.quick else OUT
    chosen = [which for which in shelf.RECORDINGS if which.name in (options.only or names)]
    paths = {which: folder / f"{which.name}.jsonl.gz" for which in chosen}
    again = options.again or options.quick
    missing = {which: path for which, path in paths.items() if again or not path.is_file()}
    minutes = sum(which.minutes for which in missing)
    print(f"{len(missing)} of {len(paths)} recordings to make", end="")
    print(
        "." if options.quick or not missing else f": about {minutes:.0f} minutes on two quiet cores (Ctrl-C ends it)."
    )
    artifacts.build(environment.ROOT)
    failed = 0
    for which, path in missing.items():
        try:
            record(which, path, options.quick)
        except (RuntimeError, OSError) as error:
            print(f"{which.name}: {error}", file=sys.stderr)
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nEnded; finished recordings are kept, and the next run goes on from there.")
