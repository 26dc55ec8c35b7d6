"""Runs the shell steps of a composite action as GitHub's runner does: conditions, environment, outputs, failures.

Steps that use other actions are not run; their inputs are recorded. The expressions are the few that
``action.yml`` has: names, text, ``==``, ``!=``, ``&&``, ``!cancelled()``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass
class Ran:
    """What a run of the action did.

    Attributes:
        steps: the names of the steps that ran, or what they use.
        used: the inputs of the steps that use other actions, by action.
        failed: the names of the shell steps that failed.
        log: stdout and stderr of all steps.
    """

    steps: list[str] = field(default_factory=list)
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    log: str = ""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)


def run_action(
    file: Path, inputs: Mapping[str, str], github: Mapping[str, Any], environ: Mapping[str, str], checkout: Path
) -> Ran:
    """Run an action.

    Args:
        inputs: those that differ from their defaults.
        github: the ``github`` context.
        environ: of every step, with the PATH.
        checkout: the folder in which steps run.
    """
    action = yaml.safe_load(file.read_text("utf-8"))
    unknown = set(inputs) - set(action["inputs"])
    assert not unknown, unknown
    values = {name: inputs.get(name, about.get("default", "")) for name, about in action["inputs"].items()}
    ran = Ran()
    for number, step in enumerate(action["runs"]["steps"]):
        context = {"inputs": values, "github": github, "runner": {"os": "Linux"}, "steps": ran.outputs}
        condition = step.get("if", "${{ !cancelled() }}" if not ran.failed else "")
        always = "cancelled()" in condition
        if (ran.failed and not always) or not _true(condition, context):
            continue
        name = step.get("name", step.get("uses"))
        ran.steps.append(name)
        if "uses" in step:
            ran.used[step["uses"]] = {key: _text(value, context) for key, value in step.get("with", {}).items()}
        elif _shell(step, context, environ, checkout, ran, number) and not step.get("continue-on-error"):
            ran.failed.append(name)
    return ran


def _shell(
    step: dict[str, Any],
    context: dict[str, Any],
    environ: Mapping[str, str],
    checkout: Path,
    ran: Ran,
    number: int,
) -> bool:
    """Runs a step; returns whether it failed."""
    output = checkout.parent / f"output {number}"
    output.write_text("")
    own = {key: _text(value, context) for key, value in step.get("env", {}).items()}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=checkout / _text(step.get("working-directory", "."), context),
        env={**environ, **own, "GITHUB_OUTPUT": str(output), "GITHUB_ACTIONS": "true"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    ran.log += done.stdout + done.stderr
    if "id" in step:
        pairs = (line.partition("=") for line in output.read_text().splitlines())
        ran.outputs[step["id"]] = {"outputs": {key: value for key, _, value in pairs}}  # type: ignore[dict-item]
    return done.returncode != 0


def _text(value: object, context: dict[str, Any]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(_value(match[1].strip(), context)), str(value))


def _true(condition: str, context: dict[str, Any]) -> bool:
    inside = re.fullmatch(r"\$\{\{(.*)\}\}", condition)
    assert inside is not None, condition
    return all(_term(term.strip(), context) for term in inside[1].split("&&"))


def _term(term: str, context: dict[str, Any]) -> bool:
    if term == "!cancelled()":
        return True
    left, operator, right = re.split(r"\s*(==|!=)\s*", term)
    return (_value(left, context) == _value(right, context)) == (operator == "==")


def _value(name: str, context: dict[str, Any]) -> object:
    if name.startswith("'"):
        return name.strip("'")
    found: Any = context
    for part in name.split("."):
        found = found.get(part, "") if isinstance(found, Mapping) else ""
    return found
