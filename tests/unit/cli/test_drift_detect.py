import json
import subprocess
import sys

from tests.golden import Golden
from typer.testing import CliRunner

from plumbline.cli.app import app

STEP = [100, 100, 101, 99, 100, 100, 110, 110, 111, 109, 110, 110, 110]


def run(lines: str, *options: str) -> tuple[int, list[object], str]:
    result = CliRunner().invoke(app, ["drift", "detect", *options], input=lines)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def test_each_line_is_answered_in_order() -> None:
    lines = "".join(json.dumps({"values": values, "repeats": None}) + "\n" for values in (STEP, [1, 2, 3], [*STEP[:6], None, *STEP[6:]]))

    code, answers, _ = run(lines, "--stdin")

    assert (code, answers) == (0, [[6], [], [7]])


def test_the_floor_is_passed_on() -> None:
    assert run(json.dumps({"values": STEP}), "--stdin", "--floor", "0.2")[1] == [[]]


def test_a_bad_line_is_named_and_harms_no_other(golden: Golden) -> None:
    good = json.dumps({"values": STEP})

    code, answers, said = run(f'{good}\n{{"values": [1, "x"]}}\nnope\n{{"value": []}}\n{{"values": [1, true]}}\n{good}\n', "--stdin")

    assert (code, answers) == (2, [[6], None, None, None, None, [6]])
    golden("cli.drift_detect_problems", said)


def test_without_stdin_it_says_what_it_expects() -> None:
    code, answers, _ = run("")

    assert (code, answers) == (2, [])


def test_it_answers_while_its_input_stays_open() -> None:
    command = [sys.executable, "-m", "plumbline.cli", "drift", "detect", "--stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(json.dumps({"values": STEP}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == [6]
        process.stdin.close()
        assert process.wait(60) == 0
