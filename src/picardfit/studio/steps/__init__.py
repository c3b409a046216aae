"""The steps of the page, one module each: `build(desk)` draws one of them."""
