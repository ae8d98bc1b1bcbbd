"""The picture of docs/html.md: ``python -m tests.html_picture PAGE`` photographs an HTML report in Chromium.

``PAGE`` is the ``index.html`` of a report. The picture shows its top in light colours above its flow in dark ones.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Literal

from tests.dispatchcov.report.chromium import launched

PICTURE = Path(__file__).parent.parent / "docs" / "html-report.png"
PARTS: tuple[tuple[Literal["light", "dark"], str, int], ...] = (("light", "summary", 860), ("dark", "flow", 760))


def main(page: str) -> None:
    """Write the picture."""
    shots = []
    with launched() as browser:
        for scheme, part, height in PARTS:
            view = browser.new_page(viewport={"width": 1200, "height": height}, color_scheme=scheme)
            view.emulate_media(reduced_motion="reduce")
            view.goto(Path(page).resolve().as_uri())
            if part != "summary":
                view.locator(f"#table-0-{part}").evaluate("e => e.scrollIntoView()")
            shots.append(view.screenshot())
        sheet = browser.new_page(viewport={"width": 1200, "height": sum(height for _, _, height in PARTS)})
        for shot in shots:
            sheet.evaluate(
                "text => new Promise((done) => { const i = new Image(); i.onload = done; i.style.display = 'block';"
                " i.src = 'data:image/png;base64,' + text; document.body.style.margin = 0; document.body.append(i); })",
                base64.b64encode(shot).decode(),
            )
        sheet.screenshot(path=PICTURE)


if __name__ == "__main__":
    main(sys.argv[1])
