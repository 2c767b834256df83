"""Versioned tool contracts: a registry of what a model is told, and its pins.

A contract is the name, the model-facing text and the schemas of a tool, versioned like a
prompt. A prompt version pins contracts; bindings are generated from what it pins.

Nothing is imported here: the parts below need packages of the extra ``contracts`` and are
loaded by those who use them.
"""
