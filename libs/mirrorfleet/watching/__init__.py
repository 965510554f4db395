"""Looking at both ends of a link: what there is, as the values that `planning` decides on."""
