"""The command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import clnet
from clnet.cli import command, main, options, plan_networks
from clnet.data import fashion_mnist, source
from clnet.device import Target
from clnet.device.discovery import Found
from clnet.device.tunings import Database, tunings_of
from clnet.errors import ClnetError
from clnet.models import MLP

QUICK = ["--model", "mlp", "--epochs", "1", "--batch-size", "128"]


def accuracy_in(output):
    match = re.search(r"test accuracy ([\d.]+) on \w+:\d\S* \(", output)
    assert match is not None, output
    return float(match[1])


@pytest.mark.device
def test_devices_are_listed(capsys):
    assert main(["devices"]) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["name", "device", "platform"]
    assert re.match(r"[* ] +[a-z]+:\d", first)


def test_devices_without_any_says_what_to_install(monkeypatch, capsys):
    missing = Found("opencl", None, "no OpenCL platform")
    monkeypatch.setattr("clnet.cli.devices.devices", lambda: (missing,))
    assert main(["devices"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "opencl: no OpenCL platform" in captured.err
    assert 'any CPU: pip install "clnet[pocl]"' in captured.err


def test_a_system_without_drivers_is_told_what_to_install(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "clnet", "devices"],
        env={**os.environ, "OCL_ICD_VENDORS": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert 'pip install "clnet[pocl]"' in run.stderr
    assert f"OCL_ICD_VENDORS is {tmp_path / 'none'}" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.device
def test_devices_are_described(capsys):
    assert main(["devices", "--verbose"]) == 0
    out = capsys.readouterr().out
    for part in ("compute units", "largest array", "extensions", "cl_khr_", "kernels are kept in"):
        assert part in out, out


@pytest.mark.device
def test_digits_are_trained(capsys):
    assert main(["train", "digits", *QUICK]) == 0
    out = capsys.readouterr().out
    assert re.search(r"epoch 1/1: loss \d", out)
    assert accuracy_in(out) > 0.5


@pytest.mark.device
@pytest.mark.slow
def test_cnn_reads_the_digits(capsys):
    assert main(["train", "digits"]) == 0
    assert accuracy_in(capsys.readouterr().out) >= 0.97


@pytest.mark.device
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop"])
def test_every_optimizer_learns(optimizer, capsys):
    assert main(["train", "digits", *QUICK, "--epochs", "3", "--optimizer", optimizer]) == 0
    assert accuracy_in(capsys.readouterr().out) > 0.8


@pytest.mark.device
def test_resumed_run_ends_like_the_whole(tmp_path, capsys):
    def last_line(*options):
        assert main(["train", "digits", *QUICK, "--epochs", "2", *options]) == 0
        return capsys.readouterr().out.splitlines()[-2:]

    folder = ["--checkpoint", str(tmp_path)]
    whole = last_line(*folder)
    again = last_line(*folder, "--resume")
    assert again[-1] == whole[-1]
    assert not again[0].startswith("epoch")  # nothing was left to train


@pytest.mark.device
def test_a_checkpoint_that_is_there_is_replaced_and_said_to_be(tmp_path, capsys):
    train = ["train", "digits", *QUICK, "--checkpoint", str(tmp_path)]
    last = tmp_path / "last.safetensors"
    assert main(train) == 0
    assert str(last) not in capsys.readouterr().out
    assert main(train) == 0
    assert f"{last}: replaced by this training; --resume" in capsys.readouterr().out


@pytest.mark.device
def test_a_checkpoint_of_another_model_is_refused_by_name(tmp_path, capsys):
    train = ["train", "digits", *QUICK, "--checkpoint", str(tmp_path)]
    assert main(train) == 0
    assert main([*train, "--model", "cnn", "--resume"]) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path / 'last.safetensors'}: the checkpoint does not fit this trainer" in told
    assert "strict=False" not in told


@pytest.mark.device
def test_auto_takes_digits_without_fashion_mnist(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("clnet.cli.train.places", lambda root, folders: [tmp_path / "absent"])
    assert main(["train", "auto", *QUICK]) == 0
    assert capsys.readouterr().out.startswith("digits: ")


def test_auto_takes_fashion_mnist_where_it_is(tmp_path, capsys):
    (tmp_path / fashion_mnist.FOLDERS[0]).mkdir()
    assert main(["train", "auto", "--data", str(tmp_path), *QUICK]) == 1
    assert "FashionMNIST" in capsys.readouterr().err
    assert source.places(tmp_path, fashion_mnist.FOLDERS)[1].is_dir()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--device", "nowhere:3"], "device 'nowhere:3': not found"),
        (["--device", "a b"], "a device is named like"),
        (["--resume"], "--resume needs --checkpoint DIR"),
        (["--epochs", "0"], "--epochs is 1 or more; got --epochs=0"),
        (["--batch-size", "0"], "--batch-size is 1 or more; got --batch-size=0"),
        (["--lr", "-1"], "settings are 0 or more; got --lr=-1"),
        (["--seed", f"-1{'0' * 19}"], "a seed is a whole number in [-2**63, 2**64)"),
        (["--data", "/nowhere"], "they come with clnet"),
    ],
)
@pytest.mark.device
def test_error_is_one_line(options, complaint, capsys):
    assert main(["train", "digits", *options]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("clnet: ")
    assert complaint in captured.err


@pytest.mark.device
def test_training_is_watched_as_asked(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason='pip install "clnet[plot]"')
    pytest.importorskip("tensorboard", reason='pip install "clnet[tensorboard]"')
    folder, picture = tmp_path / "run", tmp_path / "curves.png"
    watched = ["--times", "4", "--statistics", "--curves", str(picture)]
    chosen = [*watched, "--tensorboard", str(folder), "--validation", "0.2", "--schedule", "step"]
    chosen += ["--log-every", "6"]
    settings = [
        "--weight-decay",
        "1e-4",
        "--clip",
        "1",
        "--erase",
        "0.5",
        "--label-smoothing",
        "0.1",
    ]
    assert main(["train", "digits", *QUICK, *chosen, *settings]) == 0
    out = capsys.readouterr().out
    assert "1151 training images" in out  # four fifths
    assert re.search(r"step 4: forward [\d.]+ ms, backward [\d.]+ ms, update [\d.]+ ms", out)
    assert re.search(r"layers\.0\.weight\.grad +256x64 .*\|", out)
    assert re.search(r"epoch 1/1, step 6: loss [\d.]+, accuracy [\d.]+, lr 0.0002, ", out)
    assert picture.stat().st_size > 1000
    assert [file for file in folder.iterdir() if "tfevents" in file.name]


@pytest.mark.device
def test_board_is_served_while_it_trains(tmp_path, capsys, monkeypatch):
    pytest.importorskip("tensorboard", reason='pip install "clnet[tensorboard]"')
    asked = []

    def evaluate(self, loader):  # the training is over, the page is still there
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            out = capsys.readouterr().out
            if found := re.search(r"the training, live: (\S+)", out):
                with urllib.request.urlopen(found[1], timeout=60) as page:
                    asked.append(page.read())
                break
            time.sleep(0.1)
        return {"loss": 0.0, "accuracy": 1.0}

    monkeypatch.setattr("clnet.train.Trainer.evaluate", evaluate)
    assert main(["train", "digits", *QUICK, "--board", str(tmp_path)]) == 0
    assert b"TensorBoard" in asked[0]
    (run,) = tmp_path.iterdir()
    assert run.name.startswith("digits-mlp-")
    assert f"the page again: tensorboard --logdir {tmp_path}" in capsys.readouterr().out


@pytest.mark.device
@pytest.mark.skipif(os.name != "posix", reason="a process is killed")
def test_board_ends_with_a_training_that_is_killed(tmp_path):
    pytest.importorskip("tensorboard", reason='pip install "clnet[tensorboard]"')
    command = [sys.executable, "-u", "-m", "clnet", "train", "digits", "--model", "mlp"]
    command += ["--epochs", "100000", "--board", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        address = next(filter(None, (re.search(r"live: (\S+)", s) for s in training.stdout)))[1]
        training.kill()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address, timeout=60).close()
        except OSError:  # no connection, or one that was cut
            return
        time.sleep(0.2)
    pytest.fail("the page is still served")


@pytest.mark.device
def test_precision_is_passed_on(capsys):
    assert main(["train", "digits", *QUICK, "--model", "mlp", "--precision", "bf16"]) == 0
    assert "test accuracy 0." in capsys.readouterr().out


@pytest.mark.device
@pytest.mark.parametrize("schedule", ["cosine", "step", "constant"])
def test_rate_follows_the_schedule(schedule, capsys):
    arguments = ["train", "digits", *QUICK, "--schedule", schedule, "--model", "mlp"]
    parsed = command._parser(arguments).parse_args([*arguments, "--lr", "1"])
    optimizer = options.optimizer(MLP((4,), 2), parsed, lr=5.0)
    rates = options.scheduler(optimizer, parsed, steps=8)
    seen = []
    for _ in range(8):
        seen.append(round(float(optimizer.param_groups[0]["lr"]), 4))
        optimizer.step()
        rates.step()
    expected = {
        "cosine": [round((1 + np.cos(np.pi * i / 8)) / 2, 4) for i in range(8)],
        "step": [1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01],
        "constant": [1] * 8,
    }
    assert seen == expected[schedule]


@pytest.mark.device
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["digits", "--model", "resnet14"], "images of three channels"),
        (["digits", "--model", "lenet"], "images of 28x28"),
        (["digits", "--width", "8"], "--width is a residual network's"),
        (
            ["digits", "--validation", "1"],
            "--validation lies between 0 and 1; got --validation=1.0",
        ),
        (["digits", "--times", "0"], "--times is 1 or more; got --times=0"),
        (["digits", "--log-every", "0"], "--log-every is 1 or more; got --log-every=0"),
        (["digits", "--board", "--tensorboard", "a"], "both name the run's folder"),
        (["digits", "--clip", "-1"], "--clip is above 0; got --clip=-1"),
        (["digits", "--clip", "nan"], "--clip is above 0; got --clip=nan"),
        (["digits", "--devices", ""], "--devices is one name or more, with commas"),
        (["digits", "--devices", "cpu,"], "--devices is one name or more, with commas"),
    ],
)
def test_option_that_does_not_fit_is_refused(options, complaint, capsys):
    assert main(["train", *options]) == 1
    assert complaint in capsys.readouterr().err


def test_debug_shows_the_traceback():
    with pytest.raises(ClnetError):
        main(["train", "digits", "--resume", "--debug"])


def test_absent_data_set_says_where_it_was_looked_for(tmp_path, capsys):
    assert main(["train", "mnist", "--data", str(tmp_path / "nothing")]) == 1
    assert str(tmp_path / "nothing") in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["train", "--help"]])
def test_help_and_version(argv, capsys):
    with pytest.raises(SystemExit) as info:
        main(argv)
    assert info.value.code == 0
    assert "clnet" in capsys.readouterr().out


def test_unknown_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as info:
        main(["fly"])
    assert info.value.code == 2
    assert "fly" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "profile", "report"])
def test_missing_argument_is_the_one_that_is_named(command, capsys):
    with pytest.raises(SystemExit):
        main([command])
    assert re.search(r"required: [A-Z]+\n", capsys.readouterr().err)


def test_module_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "clnet", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("clnet ")


@pytest.mark.device
def test_profile_of_a_script_reports_after_it(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, clnet\nprint(sys.argv[1:], clnet.ones(4).exp().tolist())\nsys.exit(3)\n"
    )
    outputs = [f"--{kind}={tmp_path / kind}" for kind in ("html", "trace", "json")]
    assert main(["profile", *outputs, str(script), "--its", "option"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("['--its', 'option'] [2.7182")
    assert "Device: kernels and copies" in out
    assert "clEnqueueNDRangeKernel" in (tmp_path / "json").read_text()
    assert (tmp_path / "trace").stat().st_size > 100
    assert "script.py --its option" in (tmp_path / "html").read_text()


@pytest.mark.device
def test_profile_of_a_command_names_layers_and_optimiser(capsys):
    assert main(["profile", "--share=1", "train", "digits", *QUICK]) == 0
    out = capsys.readouterr().out
    assert accuracy_in(out) > 0.5
    assert "Python and imports" in out
    assert re.search(r"^ .*MLP\.0$", out, re.MULTILINE)
    assert re.search(r"^ .*Adam$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["no/such.py"], "no such file"), (["--share=0", "train"], r"--share lies in (0, 1]")],
)
def test_profile_of_nothing_says_so(arguments, message, capsys):
    assert main(["profile", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_plan_prints_whether_it_fits(capsys):
    assert main(["plan", "resnet20", "--batch-size", "8", "--memory", "1G"]) == 0
    assert "compiled, checkpoints" in capsys.readouterr().out
    assert main(["plan", "resnet20", "--batch-size", "8", "--memory", "2M", "--inference"]) == 3
    assert "does not fit" in capsys.readouterr().out


def test_plan_knows_every_network_of_the_readme():
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    table = page.split("| for | constructors |")[1].split("\n\n")[0]
    names = {n for n in re.findall(r"`(\w+)`", table) if hasattr(clnet.models, n)}
    assert len(names) > 50
    assert names - set(plan_networks.NETWORKS) == set()


@pytest.mark.parametrize(
    "name",
    [
        *("googlenet", "CNN", "unet", "VAE", "DCGANGenerator", "lstm_language_model"),
        *("gru_tagger", "gpt", "shi_lstm"),
    ],
)
def test_plan_has_a_loss_for_each_kind_of_network(name, capsys):
    assert main(["plan", name, "--batch-size", "2", "--memory", "64G", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    needs = line["needs"]
    # A training step holds parameters, their gradients and the optimiser's state.
    assert needs["compiled"]["used"] > 2.9 * line["parameters"]
    assert needs["compiled, checkpoints"]["problem"] is None


def test_plan_of_blocks_that_give_tensors_within_tuples():
    config = clnet.models.LlamaConfig(100, 32, 128, 6, 4, 2)
    forecast = clnet.plan(
        lambda: clnet.models.Llama(config), (8, 64), optimizer=clnet.optim.Adam,
        loss=lambda found, words: clnet.nn.functional.cross_entropy(
            found.flatten(0, 1), words.flatten()
        ),
        target_shape=(8, 64), input_dtype=clnet.int64,
    )  # fmt: skip
    assert forecast.needs["eager, checkpoints"].used < forecast.needs["eager"].used


def test_plan_of_devices_is_of_networks_of_classes(capsys):
    options = ["--devices", "2", "--link", "1", "--flops", "1T", "--bandwidth", "1"]
    assert main(["plan", "lstm_language_model", *options]) == 1
    assert "networks that find the class of an example" in capsys.readouterr().err


def test_plan_for_the_traits_of_another_machine(tmp_path, capsys):
    assert main(["devices", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)[0]
    file = tmp_path / "traits.json"
    file.write_text(json.dumps(described))
    options = ["--traits", str(file), "--input", "3x16x16", "--optimizer", "adam", "--json"]
    assert main(["plan", "resnet14", *options]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["needs"]["compiled"]["fits"]
    assert line["needs"]["compiled"]["used"] > 4 * line["parameters"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--input", "large"], "--input is given as 3x224x224; got --input=large"),
        (["--input", "3x0x3"], "--input has sizes above 0; got --input=3x0x3"),
        (["--memory", "much"], "--memory is given as 8G or 512M"),
        (["--traits", "/nowhere"], "cannot read the traits"),
        (["--traits", "x", "--device", "cpu"], "--device and --traits name two devices"),
    ],
)
def test_plan_options_that_make_no_sense(options, complaint, capsys):
    assert main(["plan", "resnet20", *options]) == 1
    assert complaint in capsys.readouterr().err


def test_plan_divides_a_step_over_devices(capsys):
    given = ["--batch-size", "64", "--link", "55", "--flops", "25T", "--bandwidth", "3500"]
    assert main(["plan", "resnet20", *given, "--devices", "1,2", "--each"]) == 0
    shown = capsys.readouterr().out
    assert "times: kernels at 25,000 GFLOP/s" in shown
    assert shown.count(" *") == 2
    assert "takes" in shown.splitlines()[-1]
    assert main(["plan", "resnet20", *given, "--devices", "1024", "--json", "--memory", "1M"]) == 3
    line = json.loads(capsys.readouterr().out)
    assert line["plans"][0]["best"] is None
    problems = {w["name"]: w["problem"] for w in line["plans"][0]["ways"]}
    assert problems["data"] == "fewer examples than devices"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--devices", "two"], "--devices is given as 4 or 1,2,4"),
        (["--devices", "2"], "--devices needs the devices' --link"),
        (["--devices", "2", "--link", "0"], "--link is above 0, in GB/s; got --link=0"),
        (["--devices", "2", "--link", "1", "--flops", "1T"], "both --flops and --bandwidth"),
        (
            ["--devices", "2", "--link", "1", "--flops", "x", "--bandwidth", "1"],
            "--flops is given as 25T",
        ),
        (["--devices", "2", "--inference"], "--devices is of a training step"),
        (["--each"], "--each goes with --devices"),
        (["--link", "0"], "--link goes with --devices"),
        (["--devices", "2", "--link", "1", "--latency", "nan"], "latency and sums are 0 or more"),
        (
            ["--devices", "1", "--flops", "1T", "--bandwidth", "1", "--launch", "-5"],
            "a launch takes 0 us or more",
        ),
    ],
)
def test_plan_for_devices_that_makes_no_sense(options, complaint, capsys):
    assert main(["plan", "resnet20", *options]) == 1
    assert complaint in capsys.readouterr().err


def measured_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the device keep its tunings in a folder, and ask for one small product alone."""
    where = clnet.device()
    tunings = tunings_of(where.identity, where.traits, folder)
    monkeypatch.setattr(where, "target", Target(where.traits, 2**26, tunings))
    problem = {"dtype": "float32", "m": 24, "n": 40, "k": 32, "batch": 1, "items": 1}
    product = {**problem, "layout": "NN"}
    asked = [("gemm_packed", product)] * 2
    monkeypatch.setattr("clnet.bench.tuning_problems.of_op", lambda op, on: asked)


@pytest.mark.device
def test_tune_measures_once_and_keeps_what_it_found(tmp_path, monkeypatch, capsys):
    measured_in(tmp_path / "kept", monkeypatch)
    wins = tmp_path / "wins.jsonl"
    assert main(["tune", "--op", "gemm", "--seconds", "60", "--export", str(wins)]) == 0
    out = capsys.readouterr().out
    assert "1 problems, 1 to measure" in out
    assert re.search(r"gemm_packed float32 24 40 32 1 1 NN .* us .*x the default  rows=\d+", out)
    (path,) = (tmp_path / "kept").iterdir()
    (kept,) = Database.parse(path.read_text()).entries.values()
    exported = list(Database.parse(wins.read_text()).entries.values())
    assert exported == ([kept] if kept.us < 0.97 * kept.default_us else [])
    assert main(["tune", "--op", "gemm"]) == 0
    assert "1 problems, 0 to measure" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--seconds", "0"], "tune: --seconds is positive; got --seconds=0.0"),
        (["--seconds", "nan"], "tune: --seconds is positive; got --seconds=nan"),
        (["--op", "sort"], "--op: there is no such op; got found='sort', have=gemm, conv"),
        (["--net", "none"], "there is no such network"),
        (["--simd-width", "3"], "tune: --simd-width is a power of two in [1, "),
    ],
)
def test_tune_options_that_make_no_sense(options, complaint, capsys):
    assert main(["tune", *options]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.device
@pytest.mark.parametrize("place", [__file__, f"{__file__}/tunings"])
def test_tune_refuses_a_file_before_it_measures(place, capsys):
    assert main(["tune", "--op", "gemm", "--export", place]) == 1
    shown = capsys.readouterr()
    assert "--export names a file of tunings, or a new one" in shown.err
    assert not shown.out


@pytest.mark.device
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gemm", "--only", "nowhere"], "bench gemm: no name contains --only; got only='nowhere'"),
        (["gemm", "--cases", ""], "--cases: no such group of products; got found=''"),
        (["conv", "--only", "nowhere"], "bench conv: no name contains --only"),
        (["bandwidth", "--only", "nowhere"], "bench bandwidth: no name contains --only"),
        (["start", "--net", ""], "--net: there is no such network; got found=''"),
        (["shi2016", "--net", "lstm,"], "--net: there is no such network; got found=''"),
        (["step", "--steps", "0"], "bench step: --steps is 1 or more; got --steps=0"),
        (["step", "x"], "bench step: networks are named as it has them; got networks=['x']"),
        (["gemm", "--rounds", "0"], "bench gemm: --rounds is 1 or more; got --rounds=0"),
        (["zoo", "--seconds", "nan"], "bench zoo: --seconds is a number above 0, and finite"),
        (["zoo", "--seconds", "inf"], "bench zoo: --seconds is a number above 0, and finite"),
        (["shi2016", "--seconds", "0"], "bench shi2016: --seconds is a number above 0"),
        (["onnx", "none.onnx", "--seconds", "nan"], "bench onnx: --seconds is a number above 0"),
        (["conv", "--batch", "-1"], "bench conv: --batch is 1 or more; got --batch=-1"),
        (
            ["zoo", "--chart", "/none/x.png"],
            "bench zoo: --chart is a file in a folder that is there",
        ),
        (["shi2016", "--results", "/"], "bench shi2016: --results is a file in a folder that is"),
        (["ece408", "--html", "/none/x.html"], "bench ece408: --html is a file in a folder that"),
        (["ece408", "--images", "0"], "bench ece408: --images is 1 or more; got --images=0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bench_of_nothing_is_an_error(arguments, complaint, capsys):
    assert main(["bench", *arguments]) == 1
    assert complaint in capsys.readouterr().err


def test_errors_of_the_library_name_options_of_the_command():
    known = {"download": True, "data": None, "batch_size": 1, "run": None, "program": "x"}
    text = "MNIST: no file; got run=1, data=3. pass download=True, or the files' folder as root"
    told = "MNIST: no file; got run=1, --data=3. pass --download, or the files' folder as --data"
    assert command.in_options(text, known) == told
    loader = "DataLoader: batch_size is 1 or more; got batch_size=0, my_batch_size=2"
    told = "DataLoader: --batch-size is 1 or more; got --batch-size=0, my_batch_size=2"
    assert command.in_options(loader, known) == told
