"""strop data: bring samples into one form, clean them, and see what became of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import typer

from strop.core.errors import DataError
from strop.curriculum.history import record, record_of, results_of_rows, samples_seen
from strop.storage.records import RUN_FILE, read_rollouts

data = typer.Typer(no_args_is_help=True, help="Import, clean and follow samples.")
COLUMNS = ("step", "ticket", "domain", "task_id", "scores")
Folder = Annotated[Path, typer.Option("--out", help="the folder to make")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace a folder that strop data made")]


@data.command("import")
def import_samples(
    files: Annotated[list[Path], typer.Argument(help="JSONL or Parquet files, or folders that strop data made")],
    out: Folder,
    kind: Annotated[Optional[Literal["tasks", "pairs"]], typer.Option(help="recognised when left out")] = None,  # noqa: UP045
    prompt: Annotated[str, typer.Option(help="the column with the prompt; recognised when left out")] = "",
    reference: Annotated[str, typer.Option(help="the column with the right answer; recognised when left out")] = "",
    near: Annotated[float, typer.Option(min=0, max=1, help="similarity of near-duplicates; 0 keeps them")] = 0.8,
    overwrite: Overwrite = False,
) -> None:
    """Bring FILES into one form, remove duplicates, and write samples.jsonl, removed.jsonl and manifest.json."""
    from strop.tasks.manifest import check_target, samples_file, write_samples
    from strop.tasks.samples import Sample, read_samples, without_duplicates

    check_target(out, overwrite)
    samples: list[Sample] = []
    paths = [samples_file(file) for file in files]
    for path in paths:
        found = read_samples(path, kind=kind, prompt=prompt, reference=reference)
        if samples and found[0].kind != samples[0].kind:
            raise DataError(f"{path}: holds {found[0].kind} and {paths[0]} {samples[0].kind}; import them apart")
        samples += found
    kept, removed = without_duplicates(samples, near)
    made_by: dict[str, Any] = {"command": "import", "near": near, "prompt": prompt, "reference": reference}
    write_samples(out, kept, removed, sources=paths, made_by=made_by, overwrite=overwrite)
    _say(out, len(kept), Counter(one.reason for one in removed))


@data.command()
def decontaminate(
    samples: Annotated[Path, typer.Argument(help="a folder that strop data made, or a JSONL or Parquet file")],
    against: Annotated[list[str], typer.Option(help="a file of evaluation questions, or builtin; may be repeated")],
    out: Folder,
    column: Annotated[str, typer.Option(help="the column of the questions; recognised when left out")] = "",
    ngram: Annotated[int, typer.Option(min=1, help="words in a row that count as one match")] = 8,
    overlap: Annotated[float, typer.Option(min=0.01, max=1, help="share of a question's n-grams to be found")] = 0.5,
    overwrite: Overwrite = False,
) -> None:
    """Leave out samples that hold text of evaluation sets; removed.jsonl says which, of what, and by how much."""
    from strop.tasks.contamination import evaluation_texts, overlaps
    from strop.tasks.manifest import check_target, samples_file, write_samples
    from strop.tasks.samples import Removed, read_samples

    check_target(out, overwrite)
    path = samples_file(samples)
    found = read_samples(path)
    questions = [text for source in against for text in evaluation_texts(source, column)]
    matches = overlaps([sample.all_text for sample in found], questions, ngram=ngram, share=overlap)
    removed = [
        Removed(sample=found[m.index], reason=f"contamination: {m.words!r}", of=m.where, share=m.share) for m in matches
    ]
    gone = {match.index for match in matches}
    kept = [sample for number, sample in enumerate(found) if number not in gone]
    made_by: dict[str, Any] = {"command": "decontaminate", "against": list(against), "ngram": ngram, "overlap": overlap}
    write_samples(out, kept, removed, sources=[path], made_by=made_by, overwrite=overwrite)
    for one in removed[:10]:
        print(f"removed {one.sample.where}: {one.share:.0%} of {one.of}, such as {one.reason[15:]}")
    _say(out, len(kept), Counter({"contamination": len(removed)} if removed else {}))


@data.command()
def check(folder: Annotated[Path, typer.Argument(help="a folder that strop data made")]) -> None:
    """Whether every sample is the one that the manifest names."""
    from strop.tasks.manifest import check_samples

    num_samples, flaws = check_samples(folder)
    if flaws:
        raise DataError(f"{flaws[0]}" + (f"; {len(flaws) - 1} more like it" if len(flaws) > 1 else ""))
    print(f"{folder}: {num_samples} samples as the manifest names them")


@data.command()
def seen(
    run: Annotated[Path, typer.Argument(help="a run folder")],
    stage: Annotated[str, typer.Option(help="only up to this stage, by the name of its folder")] = "",
    step: Annotated[Optional[int], typer.Option(help="only up to this step of the last stage")] = None,  # noqa: UP045
    output: Annotated[Optional[Path], typer.Option(help="a new JSONL file to write the tasks to")] = None,  # noqa: UP045
) -> None:
    """The tasks that a run (or its checkpoint STEP) was trained on, with attempts, passes and last steps."""
    rows = _recorded(run, stage, step)
    signals = _signals(run)
    history = dict[str, Any]()
    for result in results_of_rows(rows, {row["domain"]: signals.get(row["domain"], "accuracy") for row in rows}):
        history = record(history, result)
    lines = [
        {"domain": domain, "task_id": task, **asdict(record_of(history, domain, task))}
        for domain, tasks in sorted(history.items())
        for task in sorted(tasks)
    ]
    if output is not None:
        with output.open("x") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    for domain, tasks in sorted(history.items()):
        attempts, passes = (sum(record[key] for record in tasks.values()) for key in ("attempts", "passes"))
        never = sum(record["passes"] == 0 for record in tasks.values())
        print(f"{domain}: {len(tasks)} tasks, {passes} of {attempts} attempts passed, {never} tasks never passed")
    summary = samples_seen(history)
    print(f"{summary['num_tasks']} tasks seen, hash {summary['digest']}")


def _recorded(run: Path, stage: str, step: int | None) -> list[dict[str, Any]]:
    """Rows of the stages up to `stage`, of the last of them up to `step`; steps count on from stage to stage."""
    folders = sorted(
        run.glob("*/rollouts"), key=lambda f: int(p) if (p := f.parent.name.split("-")[0]).isdigit() else 0
    )
    names = [folder.parent.name for folder in folders]
    if not folders:
        raise DataError(f"{run}: holds no rollouts; give the folder of a run that had an RL stage")
    if stage and stage not in names:
        raise DataError(f"{run}: no stage {stage!r} has rollouts; there are {', '.join(names)}")
    used = folders[: names.index(stage) + 1] if stage else folders
    rows: list[dict[str, Any]] = []
    for number, folder in enumerate(used):
        found = read_rollouts(folder, columns=COLUMNS)
        if number == len(used) - 1 and step is not None:
            found = [row for row in found if row["step"] <= step]
        first = rows[-1]["step"] if rows else 0
        rows += [{**row, "step": first + row["step"], "ticket": (number, row["ticket"])} for row in found]
    return rows


def _signals(run: Path) -> dict[str, str]:
    try:
        config = json.loads((run / RUN_FILE).read_text())["config"]
        return {domain["name"]: domain["signal"] for domain in config["domains"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{run / RUN_FILE}: cannot be read as a run's ({error}); give a run folder") from error


def _say(out: Path, num_kept: int, reasons: Counter[str]) -> None:
    said = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())) or "none"
    print(f"{out}: {num_kept} samples; removed: {said}" + (f" (see {out / 'removed.jsonl'})" if reasons else ""))
