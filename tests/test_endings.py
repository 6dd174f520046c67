"""How the command ends otherwise than by itself: signals, readers that go, files that refuse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clnet.cli import main
from clnet.values.atomic import replacing

COMMAND = [sys.executable, "-m", "clnet"]
TRAINING = [*COMMAND, "train", "digits", "--model", "mlp", "--epochs", "500"]
posix = pytest.mark.skipif(os.name != "posix", reason="signals and devices of POSIX")


def started(arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@posix
@pytest.mark.device
@pytest.mark.parametrize(
    ("sent", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")]
)
def test_a_signal_is_one_line_and_leaves_a_checkpoint(sent, code, word, tmp_path):
    process = started([*TRAINING, "--checkpoint", str(tmp_path)], PYTHONUNBUFFERED="1")
    assert process.stdout is not None
    while "epoch 1/" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(getattr(signal, sent))
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (code, f"clnet: {word}\n")
    last = tmp_path / "last.safetensors"
    assert f"{last}: the same command with --resume goes on from here" in printed
    assert [entry for entry in tmp_path.iterdir() if "partial" not in entry.name]


@posix
def test_ctrl_c_while_clnet_is_imported_has_no_traceback(tmp_path):
    tmp_path.joinpath("numpy.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    process = started([*COMMAND, "devices"], PYTHONPATH=path)
    assert process.communicate(timeout=60) == ("", "clnet: interrupted\n")
    assert process.returncode == -signal.SIGINT  # a shell's 130


def test_a_wrong_setting_is_one_line_for_the_command_alone():
    process = started([*COMMAND, "devices"], CLNET_MEMORY_LIMIT="much")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told.startswith("clnet: CLNET_MEMORY_LIMIT: ")


@pytest.mark.device
def test_devices_are_listed_though_the_setting_asks_for_another():
    process = started([*COMMAND, "devices"], CLNET_DEVICE="nowhere:3")
    listed, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "device" in listed.splitlines()[0]
    assert told.startswith("clnet: device 'nowhere:3': not found")
    assert "asked_by=CLNET_DEVICE" in told
    assert told.count("\n") == 1
    process = started([sys.executable, "-c", "import clnet"], CLNET_MEMORY_LIMIT="much")
    assert "Traceback" in process.communicate(timeout=60)[1]


@posix
@pytest.mark.device
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_error_worth_a_word(unbuffered):
    process = started([*COMMAND, "devices"], PYTHONUNBUFFERED=unbuffered)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == ""
    assert process.wait(60) == 141


@posix
@pytest.mark.device
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="/dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_without_room_is_one_line(unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "devices"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


@posix
def test_links_and_pipes_stay_what_they_are(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with replacing(tmp_path / "pipe") as file:
        file.write(b"new")
    assert os.read(reader, 9) == b"new"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pass


@pytest.mark.device
def test_files_that_cannot_be_written_are_one_line(tmp_path, capsys):
    for file in (tmp_path, tmp_path / "nowhere" / "file"):
        for arguments in (
            ["report", str(file)],
            ["cache", "export", str(file)],
            ["profile", "--html", str(file), "devices"],
        ):
            assert main(arguments) == 1
            assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.device
def test_a_profiled_script_that_fails_shows_where(tmp_path, capsys):
    script = tmp_path / "fails.py"
    script.write_text("import clnet\nclnet.ones(2) @ clnet.ones(3)\n")
    assert main(["profile", str(script)]) == 1
    assert "fails.py" in capsys.readouterr().err


def test_a_network_larger_than_any_buffer_does_not_fit(capsys):
    assert main(["plan", "resnet18", "--memory", "1K"]) == 3
    assert capsys.readouterr().out.startswith("does not fit: ")
    assert main(["plan", "resnet18", "--memory", "1K", "--json"]) == 3
    assert '"fits": false' in capsys.readouterr().out


def test_what_a_script_holds_in_a_circle_is_let_go_at_its_end(tmp_path):
    """Although the command itself ends without a search for circles."""
    script, file = tmp_path / "script.py", tmp_path / "told.txt"
    script.write_text(
        f"class Log: pass\nlog = Log()\nlog.self, log.file = log, open({str(file)!r}, 'w')\n"
        "log.file.write('told')\nimport builtins\nbuiltins.kept = log\n"
    )
    process = started([*COMMAND, "profile", str(script)])
    _, told = process.communicate(timeout=60)
    assert (process.returncode, file.read_text()) == (0, "told"), told
