build-vm/io/writer.o: src/io/writer.c src/io/writer.h src/util/log.h
src/io/writer.h:
src/util/log.h:
