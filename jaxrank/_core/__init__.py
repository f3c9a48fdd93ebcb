"""Internal modules, which serve all others.

They may import `gains`, `discounts` and `config`, and no other module. docs/extending.md, "The
layers of the library", says what the other modules may import.
"""
