"""Internal modules: they may import `gains`, `discounts` and `config`, and no other module."""
