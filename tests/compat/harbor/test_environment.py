"""A trial of Harbor whose environment is a sandbox: its oracle solves a task, and its verifier judges it."""

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial
from rekindle import NotFoundError
from rekindle.adapters.harbor import RekindleEnvironment

TASK = Path(__file__).parent / "task"
# The template of the sandboxes, where it is not the one that the task names.
TEMPLATE = os.environ.get("REKINDLE_TEMPLATE")


async def test_a_trial_is_run_and_judged(tmp_path: Path):
    config = TrialConfig(
        task=TaskConfig(path=TASK),
        trials_dir=tmp_path,
        agent=AgentConfig(name="oracle"),
        environment=EnvironmentConfig(
            import_path="rekindle.adapters.harbor:RekindleEnvironment",
            kwargs={"template": TEMPLATE} if TEMPLATE else {},
        ),
    )
    result = await (await Trial.create(config)).run()
    assert result.exception_info is None, result.exception_info
    assert result.verifier_result is not None and result.verifier_result.rewards == {"reward": 1}


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[RekindleEnvironment]:
    paths = TrialPaths(trial_dir=tmp_path / "trial")
    (tmp_path / "empty").mkdir()
    described = TaskEnvironment(env={"GREETING": "hi"})
    told = (tmp_path / "empty", "a-task", "a-session", paths, described, logging.getLogger())
    environment = RekindleEnvironment(*told, template=TEMPLATE or "minimal", ttl=600)
    await environment.start(force_build=False)
    yield environment
    await environment.stop(delete=True)


async def test_commands_and_files(environment: RekindleEnvironment, tmp_path: Path):
    told: list[tuple[str, str]] = []

    async def hear(words: str, stream: str) -> None:
        told.append((stream, words))

    with environment.scoped_output_callback(hear):
        ended = await environment.exec("id -un; echo $GREETING >&2; exit 3", cwd="/tmp")
    assert (ended.stdout, ended.stderr, ended.return_code) == ("root\n", "hi\n", 3)
    assert sorted(told) == [("stderr", "hi\n"), ("stdout", "root\n")]
    assert (await environment.exec("id -un", user="user")).stdout == "user\n"
    assert (await environment.exec("id -un", user="nobody")).stdout == "nobody\n"
    with pytest.raises(RuntimeError, match="timed out"):
        await environment.exec("sleep 30", timeout_sec=1)

    given = tmp_path / "given"
    (given / "below").mkdir(parents=True)
    (given / "below" / "run.sh").write_text("#!/bin/sh\necho ran > /srv/given/below/said\n")
    (given / "below" / "run.sh").chmod(0o755)
    await environment.upload_dir(given, "/srv/given")
    await environment.exec("/srv/given/below/run.sh; ln -s /etc/passwd /srv/given/link; mkfifo /srv/given/pipe")
    assert await environment.is_dir("/srv/given/below") and await environment.is_file("/srv/given/below/said")
    await environment.exec("rm /srv/given/link")
    await environment.download_dir("/srv/given", tmp_path / "back")
    assert (tmp_path / "back" / "below" / "said").read_text() == "ran\n"
    await environment.upload_file(given / "below" / "run.sh", "/srv/one/run.sh")
    await environment.download_file("/srv/one/run.sh", tmp_path / "one" / "run.sh")
    assert (tmp_path / "one" / "run.sh").read_bytes() == (given / "below" / "run.sh").read_bytes()
    with pytest.raises(NotFoundError):
        await environment.download_file("/srv/none", tmp_path / "none")


async def test_a_task_without_a_template_is_refused(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    paths = TrialPaths(trial_dir=tmp_path / "trial")
    with pytest.raises(FileNotFoundError, match="template"):
        RekindleEnvironment(tmp_path, "a-task", "a-session", paths, TaskEnvironment())
