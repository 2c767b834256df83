"""Groups of the official suite whose schema is refused at load, and by which rule.

The table is literal on purpose: a group that starts or stops being refused is a change
of the contract, and shows up here.
"""

from __future__ import annotations

REFUSED: dict[tuple[str, str], dict[str, str]] = {
    ("draft2020-12", "anchor.json"): {
        "Location-independent identifier with absolute URI": "nested_id",
        "Location-independent identifier with base URI change in subschema": "nested_id",
        "same $anchor with different base uri": "nested_id",
    },
    ("draft2020-12", "const.json"): {
        "float and integers are equal up to 64-bit representation limits": "not_json",
    },
    ("draft2020-12", "defs.json"): {
        "validate definition against metaschema": "remote_ref",
    },
    ("draft2020-12", "dynamicRef.json"): {
        (
            "A $dynamicRef to a $dynamicAnchor in the same schema resource behaves like a "
            "normal $ref to an $anchor"
        ): "dynamic_scope",
        (
            "A $dynamicRef to an $anchor in the same schema resource behaves like a normal "
            "$ref to an $anchor"
        ): "dynamic_scope",
        (
            "A $ref to a $dynamicAnchor in the same schema resource behaves like a normal "
            "$ref to an $anchor"
        ): "dynamic_scope",
        (
            "A $dynamicRef resolves to the first $dynamicAnchor still in scope that is "
            "encountered when the schema is evaluated"
        ): "dynamic_scope",
        "A $dynamicRef without anchor in fragment behaves identical to $ref": "dynamic_scope",
        (
            "A $dynamicRef with intermediate scopes that don't include a matching "
            "$dynamicAnchor does not affect dynamic scope resolution"
        ): "dynamic_scope",
        (
            "An $anchor with the same name as a $dynamicAnchor is not used for dynamic scope "
            "resolution"
        ): "nested_id",
        (
            "A $dynamicRef without a matching $dynamicAnchor in the same schema resource "
            "behaves like a normal $ref to $anchor"
        ): "dynamic_scope",
        (
            "A $dynamicRef with a non-matching $dynamicAnchor in the same schema resource "
            "behaves like a normal $ref to $anchor"
        ): "dynamic_scope",
        (
            "A $dynamicRef that initially resolves to a schema with a matching "
            "$dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope"
        ): "dynamic_scope",
        (
            "A $dynamicRef that initially resolves to a schema without a matching "
            "$dynamicAnchor behaves like a normal $ref to $anchor"
        ): "dynamic_scope",
        "multiple dynamic paths to the $dynamicRef keyword": "nested_id",
        "after leaving a dynamic scope, it is not used by a $dynamicRef": "nested_id",
        "strict-tree schema, guards against misspelled properties": "dynamic_scope",
        "tests for implementation dynamic anchor and reference link": "dynamic_scope",
        "$ref and $dynamicAnchor are independent of order - $defs first": "dynamic_scope",
        "$ref and $dynamicAnchor are independent of order - $ref first": "dynamic_scope",
        "$ref to $dynamicRef finds detached $dynamicAnchor": "remote_ref",
        "$dynamicRef points to a boolean schema": "dynamic_scope",
        "$dynamicRef skips over intermediate resources - direct reference": "nested_id",
        "$dynamicRef avoids the root of each schema, but scopes are still registered": "nested_id",
    },
    ("draft2020-12", "pattern.json"): {
        "pattern with Unicode property escape requires unicode mode": "pattern",
    },
    ("draft2020-12", "patternProperties.json"): {
        "patternProperties with Unicode property escape": "pattern",
    },
    ("draft2020-12", "ref.json"): {
        "remote ref, containing refs itself": "remote_ref",
        "Recursive references between schemas": "nested_id",
        "refs with relative uris and defs": "nested_id",
        "relative refs with absolute uris and defs": "nested_id",
        "$id must be resolved against nearest parent, not just immediate parent": "nested_id",
        "order of evaluation: $id and $ref": "nested_id",
        "order of evaluation: $id and $anchor and $ref": "nested_id",
        "order of evaluation: $id and $ref on nested schema": "nested_id",
        "simple URN base URI with $ref via the URN": "remote_ref",
        "URN base URI with URN and JSON pointer ref": "remote_ref",
        "URN base URI with URN and anchor ref": "remote_ref",
        "URN ref with nested pointer ref": "nested_id",
        "ref to if": "nested_id",
        "ref to then": "nested_id",
        "ref to else": "nested_id",
        "ref with absolute-path-reference": "nested_id",
    },
    ("draft2020-12", "refRemote.json"): {
        "remote ref": "remote_ref",
        "fragment within remote ref": "remote_ref",
        "anchor within remote ref": "remote_ref",
        "ref within remote ref": "remote_ref",
        "base URI change": "nested_id",
        "base URI change - change folder": "nested_id",
        "base URI change - change folder in subschema": "nested_id",
        "root ref in remote ref": "remote_ref",
        "remote ref with ref to defs": "remote_ref",
        "Location-independent identifier in remote ref": "remote_ref",
        "retrieved nested refs resolve relative to their URI not $id": "remote_ref",
        "remote HTTP ref with different $id": "remote_ref",
        "remote HTTP ref with different URN $id": "remote_ref",
        "remote HTTP ref with nested absolute ref": "remote_ref",
        "$ref to $ref finds detached $anchor": "remote_ref",
    },
    ("draft2020-12", "unevaluatedItems.json"): {
        "unevaluatedItems with $dynamicRef": "dynamic_scope",
    },
    ("draft2020-12", "unevaluatedProperties.json"): {
        "unevaluatedProperties with $dynamicRef": "dynamic_scope",
    },
    ("draft2020-12", "vocabulary.json"): {
        "schema that uses custom metaschema with with no validation vocabulary": "dialect",
        "ignore unrecognized optional vocabulary": "dialect",
    },
    ("draft7", "const.json"): {
        "float and integers are equal up to 64-bit representation limits": "not_json",
    },
    ("draft7", "definitions.json"): {
        "validate definition against metaschema": "remote_ref",
    },
    ("draft7", "ref.json"): {
        "$ref prevents a sibling $id from changing the base uri": "nested_id",
        "remote ref, containing refs itself": "remote_ref",
        "Recursive references between schemas": "nested_id",
        "Location-independent identifier": "nested_id",
        "Reference an anchor with a non-relative URI": "nested_id",
        "Location-independent identifier with base URI change in subschema": "nested_id",
        "refs with relative uris and defs": "nested_id",
        "relative refs with absolute uris and defs": "nested_id",
        "$id must be resolved against nearest parent, not just immediate parent": "nested_id",
        "simple URN base URI with $ref via the URN": "remote_ref",
        "URN base URI with URN and JSON pointer ref": "remote_ref",
        "URN base URI with URN and anchor ref": "nested_id",
        "ref to if": "nested_id",
        "ref to then": "nested_id",
        "ref to else": "nested_id",
        "ref with absolute-path-reference": "nested_id",
    },
    ("draft7", "refRemote.json"): {
        "remote ref": "remote_ref",
        "fragment within remote ref": "remote_ref",
        "ref within remote ref": "remote_ref",
        "base URI change": "nested_id",
        "base URI change - change folder": "nested_id",
        "base URI change - change folder in subschema": "nested_id",
        "root ref in remote ref": "remote_ref",
        "remote ref with ref to definitions": "remote_ref",
        "Location-independent identifier in remote ref": "remote_ref",
        "retrieved nested refs resolve relative to their URI not $id": "remote_ref",
        "$ref to $ref finds location-independent $id": "remote_ref",
    },
}
