"""Mustache templates of prompts: read them, and infer what they want filled in."""

from .infer import Inferred, infer_inputs
from .parse import parse_template

__all__ = ["Inferred", "infer_inputs", "parse_template"]
