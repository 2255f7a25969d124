"""Undo what one actor did: from the journal a plan, from the plan changes."""
