from __future__ import annotations

from dispatchcov.workflow_commands import command


def test_a_command_with_properties() -> None:
    assert command("error", "no", file="a.toml", line=3) == "::error file=a.toml,line=3::no"


def test_empty_properties_are_left_out() -> None:
    assert command("notice", "yes", file="", line=0) == "::notice::yes"


def test_nothing_ends_a_command_or_a_property_early() -> None:
    shown = command("error", "50 %\r\n::error::x, y", title="a:b,c\n%")
    assert shown == "::error title=a%3Ab%2Cc%0A%25::50 %25%0D%0A::error::x, y"
    assert "\n" not in shown
