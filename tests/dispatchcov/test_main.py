from __future__ import annotations

import subprocess
import sys


def test_python_m_is_the_command() -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dispatchcov", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "dispatchcov" in call("--version").stdout
    failed = call("explain", "nowhere.toml")
    assert failed.returncode == 1
    assert failed.stderr.startswith("dispatchcov: nowhere.toml")
    assert call("report", "--help").stdout.startswith("usage: dispatchcov report ")
