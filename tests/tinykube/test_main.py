"""Error messages of `python -m tinykube`, and its kubeconfig."""

import os
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket

import pytest

from tinykube.__main__ import main
from tinykube.serving import write_kubeconfig


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--port", "70000"], "there is no port 70000", id="no port"),
        pytest.param(["--nodes", "-1"], "--nodes is a number from 0 to 100", id="no number"),
    ],
)
def test_a_bad_option_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"tinykube: {message}\n"


def test_text_where_a_number_is_expected_is_a_one_line_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--port", "x"])

    assert ended.value.code == 2
    assert capsys.readouterr().err == "tinykube: argument --port: invalid int value: 'x'\n"


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket(AF_INET, SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert main(["--port", str(port)]) == 1

    assert capsys.readouterr().err == f"tinykube: port {port}: Address already in use\n"


def test_a_kubeconfig_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "kubeconfig"

    assert main(["--kubeconfig", str(file)]) == 1
    assert capsys.readouterr().err == f"tinykube: {file}: No such file or directory\n"


def test_a_kubeconfig_that_others_could_read_becomes_private(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    file.chmod(0o644)

    write_kubeconfig(file, "lubeck", "https://127.0.0.1:6443", b"", "secret")

    assert file.stat().st_mode & 0o777 == 0o600


def test_a_pipe_for_the_kubeconfig_keeps_its_permissions(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o640)
    reader = os.open(pipe, os.O_RDWR)  # a pipe without a reader cannot be written

    write_kubeconfig(pipe, "lubeck", "https://127.0.0.1:6443", b"", "secret")
    os.close(reader)

    assert pipe.stat().st_mode & 0o777 == 0o640
