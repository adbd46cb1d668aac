"""Questions with judgments, made from chunks by a language model, filtered, reviewed by people."""
