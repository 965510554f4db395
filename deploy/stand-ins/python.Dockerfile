FROM debian:bookworm-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends python3 python3-venv \
 && ln -s python3 /usr/bin/python \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
CMD ["python3"]
