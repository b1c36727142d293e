"""The lab over HTTP: `/api/v1`, one process per model, and the guards of the room `serving`. Never imports torch."""
