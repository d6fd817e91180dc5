"""Results in experiment trackers: MLflow and Weights & Biases, on the server that the user names.

Both packages are imported when they are used. Nothing is sent anywhere by default: MLflow needs an address, and W&B
writes to a local folder unless it is told to go online.
"""

from __future__ import annotations

import math
import re
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from recveil.core.errors import MissingExtra
from recveil.core.results import AuditResult, CloakResult, Document, MembershipResult, TrainResult
from recveil.report.numbers import HEADLINE, list_numbers

__all__ = ["log_to_mlflow", "log_to_wandb"]

UNSAFE_IN_NAMES = re.compile(r"[^\w\-./ ]")


def log_to_mlflow(
    result: Document,
    *,
    tracking_uri: str,
    experiment: str = "recveil",
    run_id: str | None = None,
    report: bool = True,
) -> str:
    """Log verdicts, numbers and the document of a result to an MLflow server.

    Args:
        result: the result.
        tracking_uri: address of the server, or a database such as `sqlite:///mlflow.db`.
        experiment: name of the experiment; it is made if it does not exist.
        run_id: an existing run to log to; a new one if None.
        report: attach the report page as well.

    Returns:
        The id of the run.
    """
    mlflow = _import_tracker("mlflow")
    client = mlflow.MlflowClient(tracking_uri=tracking_uri)
    is_new = run_id is None
    if run_id is None:
        known = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if known is None else known.experiment_id
        run_id = str(client.create_run(place).info.run_id)
    for name, value in list_settings(result).items():
        client.set_tag(run_id, f"recveil.{name}", value)
    for name, number in list_metrics(result).items():
        client.log_metric(run_id, name, number)
    with tempfile.TemporaryDirectory() as folder:
        for path in _write_documents(result, Path(folder), report=report):
            client.log_artifact(run_id, str(path), "recveil")
    if is_new:
        client.set_terminated(run_id)
    return run_id


def log_to_wandb(
    result: Document,
    *,
    project: str = "recveil",
    mode: Literal["offline", "online"] = "offline",
    host: str | None = None,
    folder: str | Path | None = None,
    report: bool = True,
) -> str:
    """Log verdicts, numbers and the document of a result to Weights & Biases.

    Args:
        result: the result.
        project: name of the project.
        mode: "offline" writes to a folder that `wandb sync` sends later; "online" sends now.
        host: address of the server, for "online".
        folder: where W&B keeps its files; the current folder if None.
        report: attach the report page as well.

    Returns:
        The id of the run.
    """
    wandb = _import_tracker("wandb")
    settings = wandb.Settings(base_url=host) if host else None
    place = None if folder is None else str(folder)
    with wandb.init(project=project, mode=mode, dir=place, config=list_settings(result), settings=settings) as run:
        run.log(list_metrics(result))
        with tempfile.TemporaryDirectory() as temporary:
            artifact = wandb.Artifact(f"recveil-{result.command}", type="recveil-result")
            for path in _write_documents(result, Path(temporary), report=report):
                artifact.add_file(str(path))
            run.log_artifact(artifact)
        return str(run.id)


def list_metrics(result: Document) -> dict[str, float]:
    """Return the headline numbers by name, such as `gender.after.advantage.low`; what is not finite is left out."""
    metrics: dict[str, float] = {}
    is_attribute = not isinstance(result, MembershipResult)
    for row in list_numbers(result):
        if is_attribute and row.attack not in (HEADLINE, ""):
            continue
        attack = "" if is_attribute else row.attack
        name = ".".join(part for part in (row.target, row.release, attack, row.metric) if part)
        ends = {"": row.value, ".low": row.low, ".high": row.high}
        metrics |= {f"{clean_name(name)}{end}": value for end, value in ends.items() if math.isfinite(value)}
    return metrics


def list_settings(result: Document) -> dict[str, str]:
    """Return what the numbers hold for: version, command, input, verdicts and rules."""
    settings: dict[str, object] = {"version": result.recveil_version, "command": result.command}
    if isinstance(result, AuditResult | CloakResult | TrainResult):
        verdicts = {f"verdict.{name}": target.verdict for name, target in result.targets.items()}
        settings |= {"input": result.input.name, "n_users": result.input.n_users, **verdicts}
        if result.protocol is not None:
            rules = result.protocol
            settings |= {"panel": rules.panel, "surface": rules.surface, "margin": rules.margin, "seed": rules.seed}
    if isinstance(result, MembershipResult):
        settings["verdict"] = result.verdict
    if isinstance(result, CloakResult):
        settings |= {"defense": result.defense.name, "strength": result.defense.strength}
    return {clean_name(name): str(value) for name, value in settings.items()}


def clean_name(name: str) -> str:
    """Return a name that every tracker takes: letters, digits and a few signs."""
    return UNSAFE_IN_NAMES.sub("_", name).replace("/", "_")[:200]


def _write_documents(result: Document, folder: Path, *, report: bool) -> list[Path]:
    result.write_json(folder / "result.json")
    if report:
        result.write_html(folder / "report.html")
    return sorted(folder.iterdir())


def _import_tracker(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(f"The package {name} is not installed. Install it with: pip install {name}") from None
