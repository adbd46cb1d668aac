"""``python -m rag_assets.cli``: the same as ``rag-assets``."""

from rag_assets.cli import main

main(prog_name="rag-assets")
