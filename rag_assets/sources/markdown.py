"""Folders of Markdown, text, HTML and PDF files, with their queries and judgments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rag_assets.errors import DataError
from rag_assets.sources.dataset import Read
from rag_assets.sources.fields import Place, checked_id, note
from rag_assets.sources.folder import Listing, document_paths, has_documents, read_file
from rag_assets.sources.folder_labels import LabelledFolder
from rag_assets.sources.problems import meet, tolerated
from rag_assets.sources.rows import DocumentRows
from rag_assets.text_files import existing, plain_name


@dataclass(frozen=True)
class MarkdownDataset(LabelledFolder):
    """The documents below a folder; a document's id is its path, as ``guides/fares.md``.

    Text may be compressed: the document of ``fares.md.gz`` is ``fares.md``.

    Every type of file in :data:`folder.READERS` is a document; types may be mixed.
    """

    format: ClassVar[str] = "markdown"
    layout: ClassVar[str] = "a folder with .md, .markdown, .txt, .html, .htm or .pdf files"
    documents: ClassVar[str] = "file of such a type"

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Return whether there is a document anywhere below the folder."""
        return path.is_dir() and has_documents(path)

    @classmethod
    def opens(cls, path: Path) -> bool:
        """Return whether it is a folder; that it holds no document is said when it is read."""
        return path.is_dir()

    def document_files(self) -> list[Path]:
        """Return the documents, sorted by path."""
        return document_paths(self.root).files

    def read_documents(self) -> Read:
        """Return the documents; notes name what was left out, lost or repaired."""
        listing = document_paths(self.root)
        rows = DocumentRows()
        remarks: dict[str, list[str]] = {}
        for file in listing.files:
            name = file.relative_to(self.root).with_name(plain_name(file)).as_posix()
            with tolerated():
                _check_alone(file)
                document_id = _document_id(name, self.root)
                meet("document", document_id)
                document = read_file(file)
                rows.add(document_id, document.title, document.text, document.metadata)
                for remark in document.remarks:
                    remarks.setdefault(remark, []).append(name)
        notes = _left_out(listing)
        for remark, names in remarks.items():
            notes += note(f"file {remark}", f"files {remark}", names)
        return rows.read(Place(self.root), notes)


def _left_out(listing: Listing) -> list[str]:
    links = ("link that leads to no file inside is", "links that lead to no file inside are")
    unread = ("file of a type that cannot be read is", "files of types that cannot be read are")
    return [
        *note(
            "file at the top is no document", "files at the top are no documents", listing.readme
        ),
        *note(f"{links[0]} not followed", f"{links[1]} not followed", listing.links),
        *note(f"{unread[0]} left out", f"{unread[1]} left out", listing.unread),
    ]


def _check_alone(file: Path) -> None:
    """Refuse a compressed file beside the same one as plain text: they would have one id."""
    if plain_name(file) != file.name:
        existing(file.with_name(plain_name(file)))


def _document_id(name: str, root: Path) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        problem = f"holds a file whose name is not UTF-8: {name!a}"
        raise DataError(problem, file=root) from error
    return checked_id(name, Place(root), "document_id")
