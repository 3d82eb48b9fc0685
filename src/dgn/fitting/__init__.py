"""From a table of molecules to a model, and from a model to predictions. Needs RDKit, the extra ``molecules``."""
