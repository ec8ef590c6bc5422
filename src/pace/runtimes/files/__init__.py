"""Runtime 2: organisations carry files. Jobs, messages, kept models and model folders on disk."""
