"""What is learnt: one module a task, each a `tasks.task.Task`."""
