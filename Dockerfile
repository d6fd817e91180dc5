# recveil on a slim Python; build with: docker build -t recveil .
# Run on files of the current folder: docker run --rm -v "$PWD:/work" recveil audit users.parquet --target gender
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN pip install --no-cache-dir --prefix=/install -c constraints.txt .

FROM python:3.11-slim
# The OpenMP runtime of torch and scikit-learn.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /install /usr/local
RUN useradd --create-home recveil
USER recveil
WORKDIR /work
ENTRYPOINT ["recveil"]
CMD ["--help"]
