"""The decisions of copying, sans-IO: slots, transactions, schedules, budgets and faults."""
