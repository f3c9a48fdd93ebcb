"""Internal modules, which serve all others.

They may import `gains`, `discounts`, `config` and `_base`, and no other module.
docs/extending.md, "The layers of the library", says what the other modules may import.
"""
