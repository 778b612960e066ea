# The broker alone, without Spark: docker build -t rmqpull-broker .
#
# The base can be any Debian image; if it has no Python, apt installs it. If the build context has a folder wheels/ with this project's
# wheel and its dependencies, the build installs these and needs no network. scripts/test-docker builds that way.
ARG BASE_IMAGE=python:3.12-slim

FROM ${BASE_IMAGE} AS base
RUN python3 -c 'import ensurepip, venv' 2>/dev/null || { \
        apt-get update && apt-get install -y --no-install-recommends python3-venv && apt-get clean && \
        rm -rf /var/lib/apt/lists/*; }

FROM base AS build
COPY . /src
# Remove what the broker does not use: Arrow Flight, S3, and Arrow's headers and tests, a third of Arrow. pip goes too.
RUN python3 -m venv /opt/rmqpull && \
    if [ -d /src/wheels ]; then set -- --no-index --find-links /src/wheels 'rmqpull[tls]'; else set -- '/src[tls]'; fi && \
    /opt/rmqpull/bin/pip install --no-cache-dir --disable-pip-version-check "$@" && \
    cd "$(/opt/rmqpull/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/pyarrow" && \
    rm -rf include tests libarrow_flight* libarrow_python_flight* _flight* libarrow_s3* _s3fs* && \
    /opt/rmqpull/bin/pip uninstall -y pip setuptools && \
    /opt/rmqpull/bin/rmqpull-broker --version

FROM base
# The user has a number, so that an orchestrator can see that it is not root.
RUN install -d -o 10001 -g 10001 /data
COPY --from=build /opt/rmqpull /opt/rmqpull
# The health check and other commands use RMQPULL_ENDPOINTS. If you change --listen, change it too.
ENV PATH=/opt/rmqpull/bin:$PATH RMQPULL_ENDPOINTS=127.0.0.1:8081
USER 10001:10001
VOLUME /data
# 9876 is for --remoting, and 9874 for --remoting-vip.
EXPOSE 8081 9874 9876
# A broker that is still recovering does not listen yet, so it is not healthy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["rmqpull-broker", "health", "--timeout", "4"]
ENTRYPOINT ["rmqpull-broker"]
CMD ["serve", "--listen", "0.0.0.0:8081", "--data-dir", "/data"]
