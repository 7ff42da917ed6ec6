# Build in one stage, run in another: no compiler and no package cache in the image that serves.
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md ./
COPY app ./app
RUN python -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir '.[postgres]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 sizing && mkdir /data && chown sizing /data
COPY --from=build /opt/venv /opt/venv
WORKDIR /srv/sizing
COPY app ./app
COPY templates ./templates
COPY static ./static
COPY migrations ./migrations
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 SIZING_DATABASE_URL=sqlite:////data/sizing.sqlite3 SIZING_HOST=0.0.0.0
USER sizing
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=15s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["sh", "-c", "python -m app migrate && exec python -m app serve"]
