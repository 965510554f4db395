"""What operators do to a fleet by hand: grants, requests, positions taken out and put back."""
