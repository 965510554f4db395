"""Programs: nothing imports them."""
