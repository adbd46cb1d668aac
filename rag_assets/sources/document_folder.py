"""Folders of Markdown, text, HTML and PDF files, with their queries and judgments.

Also which files of a folder are documents, in what order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, NoReturn

from rag_assets.errors import DataError
from rag_assets.input_files import GZIP, existing, plain_name, special_kind, suffix
from rag_assets.sources.dataset import FIRST, Problems, Read
from rag_assets.sources.document_files import READERS, read_file
from rag_assets.sources.fields import Place, checked_id, note
from rag_assets.sources.labelled_folder import LabelledFolder
from rag_assets.sources.row_files import unreadable
from rag_assets.sources.tables import DocumentRows
from rag_assets.store.artifacts import OBJECTS
from rag_assets.store.file_stamps import readable_name
from rag_assets.store.remote import LEASES_DIR

UNREAD = frozenset(
    {".adoc", ".doc", ".docx", ".epub", ".ipynb", ".mdx", ".odt", ".org", ".pptx", ".rst"}
    | {".rtf", ".tex", ".xhtml"}
)
"""Suffixes of what people would call a document and no reader is for: such files are noted."""

_KNOWN = tuple(f"{suffix}{end}" for suffix in (*READERS, *UNREAD) for end in ("", GZIP))


class Listing(NamedTuple):
    """Files in the order of their paths, and names of what is left out.

    ``links`` are symbolic links that were not followed, ``unread`` documents that no reader is for.
    """

    files: list[Path]
    readme: list[str]
    links: list[str]
    unread: list[str]

    def left_out(self) -> list[str]:
        """Return a note on each kind of file that is passed over."""
        links = ("link that leads to no file inside is", "links that lead to no file inside are")
        unread = ("file of a type that cannot be read is", "files of types that cannot be read are")
        readme = ("file at the top is not a document", "files at the top are not documents")
        return [
            *note(*readme, self.readme),
            *note(f"{links[0]} not followed", f"{links[1]} not followed", self.links),
            *note(f"{unread[0]} left out", f"{unread[1]} left out", self.unread),
        ]


@dataclass(frozen=True)
class MarkdownDataset(LabelledFolder):
    """The documents below a folder; a document's id is its path, as ``guides/fares.md``.

    Text may be compressed: the document of ``fares.md.gz`` is ``fares.md``. Every type of file in
    :data:`document_files.READERS` is a document; types may be mixed.
    """

    format: ClassVar[str] = "markdown"
    layout: ClassVar[str] = "a folder with .md, .markdown, .txt, .html, .htm or .pdf files"
    documents: ClassVar[str] = "file of such a type"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether there is a document anywhere below the folder."""
        return path.is_dir() and any(
            _is_read(file) and file.is_file() and not _is_readme(file, path)
            for file in _candidates(path)
        )

    @classmethod
    def opens(cls, path: Path) -> bool:
        """Return whether it is a folder; that it holds no document is said when it is read."""
        return path.is_dir()

    def document_files(self) -> list[Path]:
        """Return the documents, sorted by path."""
        return document_paths(self.root).files

    def read_documents(self, problems: Problems = FIRST) -> Read:
        """Return the documents; notes name what was lost or repaired."""
        rows = DocumentRows()
        remarks: dict[str, list[str]] = {}
        for file in self.document_files():
            name = file.relative_to(self.root).with_name(plain_name(file)).as_posix()
            with problems:
                if plain_name(file) != file.name:
                    existing(file.with_name(plain_name(file)))  # both would have one id
                document_id = checked_id(name, Place(self.root), "document_id")
                document = read_file(file)
                rows.add(document_id, document.title, document.text, document.metadata)
                for remark in document.remarks:
                    remarks.setdefault(remark, []).append(name)
        notes: list[str] = []
        for remark, names in remarks.items():
            notes += note(f"file {remark}", f"files {remark}", names)
        return rows.read(Place(self.root), notes)


def document_paths(root: Path) -> Listing:
    """Return all files below ``root`` with the suffix of a document, sorted by path.

    Hidden files and folders are passed over. A README at the top describes the folder and is no
    document; deeper ones are documents. A link to a file inside ``root`` counts as a file; links
    to anywhere else, to folders and to nothing are not followed.
    """
    inside = root.resolve()
    listing = Listing([], [], [], [])
    for path in _candidates(root):
        name = readable_name(path.relative_to(root).as_posix(), root)
        if path.is_symlink() and not (path.is_file() and path.resolve().is_relative_to(inside)):
            listing.links.append(name)
        elif not path.is_file():
            if kind := special_kind(path):
                raise DataError(f"is {kind}, not a file", file=path)
        elif not _is_read(path):
            listing.unread.append(name)
        elif _is_readme(path, root):
            listing.readme.append(name)
        else:
            listing.files.append(path)
    listing.files.sort(key=lambda path: path.relative_to(root).as_posix())
    return listing


def _candidates(root: Path) -> Iterator[Path]:
    """Yield files that may be documents, and links to folders; nothing hidden, and no store.

    ``data/store`` lies among the documents where these are in ``data``, and holds HTML reports.
    """
    for folder, folders, files in os.walk(root, onerror=_raise):
        if {LEASES_DIR, OBJECTS} <= {*folders}:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(folder)
        for name in sorted(files):
            # Names, not paths, until one may be a document: a folder may hold much else.
            if not name.startswith(".") and name.lower().endswith(_KNOWN):
                yield here / name
        yield from (here / name for name in folders if (here / name).is_symlink())


def _is_read(path: Path) -> bool:
    """Return whether there is a reader for a file: text may be compressed, a PDF may not."""
    return suffix(path) in READERS and not path.name.lower().endswith(f".pdf{GZIP}")


def _is_readme(path: Path, root: Path) -> bool:
    return path.parent == root and Path(plain_name(path)).stem.lower() == "readme"


def _raise(error: OSError) -> NoReturn:
    raise unreadable(Path(str(error.filename)), error) from error
