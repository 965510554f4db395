# Like apache/kafka: user appuser (1000), settings from KAFKA_ variables through Kafka's own
# wrapper, the storage formatted with CLUSTER_ID at the first start.
FROM debian:bookworm-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
RUN useradd --uid 1000 --create-home appuser \
 && mkdir -p /opt/kafka/config /opt/kafka/logs /etc/kafka/docker /mnt/shared/config \
      /var/lib/kafka/data \
 && chown -R appuser /opt/kafka /etc/kafka /mnt/shared/config /var/lib/kafka
COPY libs /opt/kafka/libs
COPY server.properties log4j2.yaml tools-log4j2.yaml /etc/kafka/docker/
COPY kafka-run /etc/kafka/docker/run
USER appuser
EXPOSE 9092
VOLUME ["/var/lib/kafka/data", "/mnt/shared/config"]
CMD ["/etc/kafka/docker/run"]
