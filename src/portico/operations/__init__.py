"""What one actor can do, whatever the front end: nothing here knows HTTP."""
