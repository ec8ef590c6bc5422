"""Runtime 2: organisations carry files. Jobs, messages, kept models and model folders on disk.

Other rooms use `adopt`, `evaluate`, `fit`, `inspect`, `intake`, `merge`, `messages`, `model`,
`model_card`, `outcome`, `predictions`, `report`, `sealed_jobs` and `site`.
"""
