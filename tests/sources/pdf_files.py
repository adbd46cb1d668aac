"""PDF files written by the tests themselves."""

from __future__ import annotations

from collections.abc import Sequence

_PAGE = (
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents {contents} 0 R "
    "/Resources << /Font << /F1 3 0 R >> >> >>"
)


def pdf_file(pages: Sequence[str], title: str = "") -> bytes:
    """Return a PDF with one page for each text, its lines one below the other."""
    kids = " ".join(f"{5 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) /Author (Ada) >>",
    ]
    for number, text in enumerate(pages):
        lines = " ".join(f"({line}) Tj T*" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 20 200 Td 14 TL {lines} ET"
        objects.append(_PAGE.format(contents=6 + 2 * number))
        objects.append(f"<< /Length {len(stream)} >> stream\n{stream}\nendstream")
    body, starts = "%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        starts.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{start:010d} 00000 n \n" for start in starts)
    size = len(objects) + 1
    return (
        f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {size} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode("ascii")
