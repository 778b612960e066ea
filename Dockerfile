# The broker alone, without Spark: docker build -t rmqpull-broker .
#
# The base is any Debian: one without Python gets it from apt. What is in wheels/ of the build context, this project's wheel among it, is
# installed instead of what an index has; scripts/test-docker builds that way, for then the build needs no network.
ARG BASE_IMAGE=python:3.12-slim

FROM ${BASE_IMAGE} AS base
RUN python3 -c 'import ensurepip, venv' 2>/dev/null || { \
        apt-get update && apt-get install -y --no-install-recommends python3-venv && apt-get clean && \
        rm -rf /var/lib/apt/lists/*; }

FROM base AS build
COPY . /src
# The broker loads neither Arrow Flight nor S3, and nobody compiles or tests Arrow here: a third of it. No pip: nothing is installed later.
RUN python3 -m venv /opt/rmqpull && \
    if [ -d /src/wheels ]; then set -- --no-index --find-links /src/wheels rmqpull; else set -- /src; fi && \
    /opt/rmqpull/bin/pip install --no-cache-dir --disable-pip-version-check "$@" && \
    cd "$(/opt/rmqpull/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/pyarrow" && \
    rm -rf include tests libarrow_flight* libarrow_python_flight* _flight* libarrow_s3* _s3fs* && \
    /opt/rmqpull/bin/pip uninstall -y pip setuptools && \
    /opt/rmqpull/bin/rmqpull-broker --version

FROM base
# By number, so that an orchestrator can see that it is not root.
RUN install -d -o 10001 -g 10001 /data
COPY --from=build /opt/rmqpull /opt/rmqpull
# RMQPULL_ENDPOINTS is where the health check and other commands ask: whoever changes --listen changes it too.
ENV PATH=/opt/rmqpull/bin:$PATH RMQPULL_ENDPOINTS=127.0.0.1:8081
USER 10001:10001
VOLUME /data
EXPOSE 8081
# A broker that is recovering does not listen yet, and so is not healthy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["rmqpull-broker", "health", "--timeout", "4"]
ENTRYPOINT ["rmqpull-broker"]
CMD ["serve", "--listen", "0.0.0.0:8081", "--data-dir", "/data"]
