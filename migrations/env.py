"""Runs the migrations on the connection the application hands over (``python -m app migrate``)."""

from alembic import context

from app.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
